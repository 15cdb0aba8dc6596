#pragma once
#include <filesystem>
#include <string>

namespace optrush {
/// Whether `program` can be started: a path, of which a relative one starts at `folder`, or a name that is
/// looked up in PATH.
bool can_execute(const std::string& program, const std::filesystem::path& folder = {});
}  // namespace optrush
