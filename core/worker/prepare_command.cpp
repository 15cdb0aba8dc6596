#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <string>

#include "base/descriptor.h"
#include "machine/unix_address.h"
#include "optrush/error.h"
#include "optrush/json.h"
#include "worker/commands.h"
#include "worker/device.h"

namespace optrush {
int prepare_command(const PrepareRequest& request, const ExecuteCommand& execute) {
  open_device("cuda", 0);
  const auto address = unix_address(request.socket);
  const Descriptor controller(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!address ||
      connect(controller.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) != 0 ||
      send(controller.get(), "{}\n", 3, MSG_NOSIGNAL) != 3)
    throw Error(ErrorCode::network, "no controller answers at '" + request.socket + "'");
  std::string line;
  for (char letter = 0; letter != '\n'; line += letter)
    if (read(controller.get(), &letter, 1) != 1) return 0;  // it is not needed
  const Json message = Json::parse(line);
  for (const auto& [name, value] : message.at("environment").items())
    setenv(name.c_str(), value.get<std::string>().c_str(), 1);
  const Descriptor log(open((request.out + "/log.txt").c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
  if (dup2(log.get(), STDOUT_FILENO) < 0 || dup2(log.get(), STDERR_FILENO) < 0) return 1;
  std::array<std::string, 6> arguments{request.program, "run", "--spec", request.spec, "--out", request.out};
  std::array<char*, 7> pointers{};  // the last one is null
  for (size_t i = 0; i < arguments.size(); ++i) pointers.at(i) = arguments.at(i).data();
  return execute(static_cast<int>(arguments.size()), pointers.data());
}
}  // namespace optrush
