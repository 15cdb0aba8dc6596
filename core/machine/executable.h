#pragma once
#include <filesystem>
#include <string>

namespace optrush {
/// Whether `program` can be started: a path (relative to `folder`), or a name that is searched in PATH.
bool can_execute(const std::string& program, const std::filesystem::path& folder = {});
}  // namespace optrush
