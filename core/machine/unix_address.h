#pragma once
#include <sys/un.h>

#include <optional>
#include <string>

namespace optrush {
/// The address of a Unix socket at this path; none if the path is too long.
std::optional<sockaddr_un> unix_address(const std::string& path);
}  // namespace optrush
