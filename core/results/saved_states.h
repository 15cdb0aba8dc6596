#pragma once
#include <filesystem>

#include "optrush/error.h"

namespace optrush {
/// The error for a folder without a saved state. It names the runs nearby that have one.
Error without_state(const std::filesystem::path& given);
}  // namespace optrush
