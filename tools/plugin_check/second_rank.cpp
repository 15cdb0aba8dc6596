#include "plugin_check/second_rank.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/descriptor.h"
#include "base/files.h"
#include "machine/child.h"
#include "machine/environment.h"
#include "optrush/error.h"
#include "spec/spec_json.h"

namespace optrush {
namespace {
uint16_t free_port_of_this_machine() {
  const Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* const general = reinterpret_cast<sockaddr*>(&address);
  if (bind(socket.get(), general, length) != 0 || getsockname(socket.get(), general, &length) != 0)
    throw Error(ErrorCode::network, std::string("no TCP port is free: ") + std::strerror(errno));
  return ntohs(address.sin_port);
}
}  // namespace

SecondRank::SecondRank(const RunSpec& spec)
    : first_{.rank = 0,
             .size = 2,
             .local_rank = 0,
             .local_size = 2,
             .host = "127.0.0.1",
             .port = free_port_of_this_machine(),
             .timeout = collective_timeout()} {
  write_json(folder_ / "spec.json", to_json(spec));
  const std::string store = first_.host + ":" + std::to_string(first_.port);
  worker_ =
      start_with_parent({"/proc/self/exe", "run", "--spec", folder_ / "spec.json", "--out", folder_ / "run",
                         "--rank", "1", "--local-rank", "1", "--local-size", "2", "--store", store},
                        folder_ / "log");
}

SecondRank::~SecondRank() {
  kill(worker_, SIGKILL);
  while (waitpid(worker_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

std::string SecondRank::failure() const {
  const auto file = folder_ / "run" / "result.json";
  return is_there(file) ? read_json(file).value("reason", std::string()) : std::string();
}
}  // namespace optrush
