#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "machine/child.h"
#include "machine/socket.h"
#include "optrush/error.h"
#include "optrush/json.h"
#include "worker/commands.h"
#include "worker/device.h"

namespace optrush {
int prepare_command(const PrepareRequest& request, const ExecuteCommand& execute) {
  open_device("cuda", 0);
  const Descriptor controller = connect_to(request.socket);
  if (send(controller.get(), "{}\n", 3, MSG_NOSIGNAL) != 3)
    throw Error(ErrorCode::network, "no controller answers at '" + request.socket + "'");
  std::string line;
  for (char letter = 0; letter != '\n'; line += letter)
    if (read(controller.get(), &letter, 1) != 1) return 0;  // it is not needed
  const Json message = Json::parse(line);
  for (const auto& [name, value] : message.at("environment").items())
    setenv(name.c_str(), value.get<std::string>().c_str(), 1);
  const Descriptor log(open((request.out + "/log.txt").c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
  if (dup2(log.get(), STDOUT_FILENO) < 0 || dup2(log.get(), STDERR_FILENO) < 0) return 1;
  std::vector<std::string> arguments{request.program, "run", "--spec", request.spec, "--out", request.out};
  return execute(static_cast<int>(arguments.size()), pointers_to(arguments).data());
}
}  // namespace optrush
