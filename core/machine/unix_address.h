#pragma once
#include <sys/un.h>

#include <optional>
#include <string>

namespace optrush {
/// Of a Unix socket at this path; none where the path is too long for one.
std::optional<sockaddr_un> unix_address(const std::string& path);
}  // namespace optrush
