#pragma once
#include <sys/socket.h>
#include <sys/un.h>

#include <optional>
#include <string>

namespace optrush {
/// The address of a Unix socket at this path; none if the path is too long.
inline std::optional<sockaddr_un> unix_address(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return std::nullopt;
  path.copy(address.sun_path, path.size());
  return address;
}
}  // namespace optrush
