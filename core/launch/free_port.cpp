#include "launch/free_port.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "launch/descriptor.h"
#include "optrush/error.h"

namespace optrush {
uint16_t free_port() {
  const Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  socklen_t length = sizeof address;
  auto* general = reinterpret_cast<sockaddr*>(&address);
  if (socket.get() < 0 || bind(socket.get(), general, length) != 0 ||
      getsockname(socket.get(), general, &length) != 0)
    throw Error(std::string("there is no free TCP port: ") + std::strerror(errno));
  return ntohs(address.sin_port);
}
}  // namespace optrush
