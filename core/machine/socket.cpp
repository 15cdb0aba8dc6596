#include "machine/socket.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "optrush/error.h"

namespace optrush {
namespace {
constexpr int kKind = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK;

void set_option(const Descriptor& socket, int level, int option, int value) {
  setsockopt(socket.get(), level, option, &value, sizeof value);
}

/// Enables keep-alive, because a machine that vanishes does not close its connections.
void watch_peer(const Descriptor& socket) {
  set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, 3);
  set_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, 2);
  set_option(socket, IPPROTO_TCP, TCP_KEEPCNT, 2);
  set_option(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, 7000);
  set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
}

/// The general type of an address. Both address families have the port at the same offset.
const sockaddr* general(const sockaddr_storage& address) {
  return reinterpret_cast<const sockaddr*>(&address);
}

sockaddr_un unix_address(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path)
    throw Error(ErrorCode::network, "the path '" + path + "' is too long for a socket",
                "set TMPDIR to a shorter one");
  path.copy(address.sun_path, path.size());
  return address;
}

constexpr int kWaiting = 1024;

bool listens(const Descriptor& socket, const sockaddr_storage& address, socklen_t length) {
  set_option(socket, SOL_SOCKET, SO_REUSEADDR, 1);  // an earlier socket of this port may be in TIME_WAIT
  return socket.get() >= 0 && bind(socket.get(), general(address), length) == 0 &&
         listen(socket.get(), kWaiting) == 0;
}

sockaddr_storage ipv4(uint32_t host, uint16_t port) {
  sockaddr_storage address{};
  auto* fields = reinterpret_cast<sockaddr_in*>(&address);
  fields->sin_family = AF_INET;
  fields->sin_addr.s_addr = htonl(host);
  fields->sin_port = htons(port);
  return address;
}

sockaddr_storage any_ipv6(uint16_t port) {
  sockaddr_storage address{};
  auto* fields = reinterpret_cast<sockaddr_in6*>(&address);
  fields->sin6_family = AF_INET6;
  fields->sin6_addr = in6addr_any;
  fields->sin6_port = htons(port);
  return address;
}

/// Waits for a connect to complete. Returns 0 or an error number.
int result_of_connect(const Descriptor& socket, double timeout_s) {
  pollfd wanted{.fd = socket.get(), .events = POLLOUT, .revents = 0};
  if (poll(&wanted, 1, static_cast<int>(timeout_s * 1000)) <= 0) return ETIMEDOUT;
  int error = 0;
  socklen_t length = sizeof error;
  return getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length) == 0 ? error : errno;
}
}  // namespace

Descriptor listen_at(uint16_t port, bool loopback_only) {
  if (!loopback_only) {
    Descriptor both(socket(AF_INET6, kKind, 0));
    set_option(both, IPPROTO_IPV6, IPV6_V6ONLY, 0);
    if (listens(both, any_ipv6(port), sizeof(sockaddr_in6))) return both;
  }
  Descriptor one(socket(AF_INET, kKind, 0));
  if (listens(one, ipv4(loopback_only ? INADDR_LOOPBACK : INADDR_ANY, port), sizeof(sockaddr_in))) return one;
  throw Error(ErrorCode::network,
              "cannot listen at port " + std::to_string(port) + ": " + std::strerror(errno));
}

Descriptor listen_at(const std::filesystem::path& path) {
  const sockaddr_un address = unix_address(path);
  Descriptor socket(::socket(AF_UNIX, kKind, 0));
  if (bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      listen(socket.get(), kWaiting) != 0)
    throw Error(ErrorCode::network, "cannot listen at '" + path.string() + "': " + std::strerror(errno));
  return socket;
}

Descriptor connect_to(const std::filesystem::path& path) {
  const sockaddr_un address = unix_address(path);
  Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    throw Error(ErrorCode::network,
                "no controller answers at '" + path.string() + "': " + std::strerror(errno));
  return socket;
}

Descriptor accept_from(const Descriptor& listener) {
  Descriptor socket(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (socket.get() >= 0) watch_peer(socket);
  return socket;
}

Descriptor connect_to(const std::string& host, uint16_t port, double timeout_s, std::string& problem) {
  const addrinfo wanted{.ai_flags = AI_NUMERICSERV, .ai_socktype = SOCK_STREAM};
  addrinfo* list = nullptr;
  if (const int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &wanted, &list); error != 0) {
    problem = gai_strerror(error);
    return Descriptor();
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(list, freeaddrinfo);
  for (const addrinfo* address = list; address != nullptr; address = address->ai_next) {
    Descriptor socket(::socket(address->ai_family, kKind, 0));
    int error = connect(socket.get(), address->ai_addr, address->ai_addrlen) == 0 ? 0 : errno;
    if (error == EINPROGRESS) error = result_of_connect(socket, timeout_s);
    if (error == 0) {
      watch_peer(socket);
      return socket;
    }
    problem = std::strerror(error);
  }
  return Descriptor();
}

uint16_t free_port() {
  const Descriptor socket(::socket(AF_INET, kKind, 0));
  sockaddr_storage address = ipv4(INADDR_ANY, 0);
  socklen_t length = sizeof address;
  if (bind(socket.get(), general(address), sizeof(sockaddr_in)) != 0 ||
      getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0)
    throw Error(ErrorCode::network, std::string("no TCP port is free: ") + std::strerror(errno));
  return ntohs(reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
}
}  // namespace optrush
