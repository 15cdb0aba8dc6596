#pragma once
#include <filesystem>
#include <string>

namespace optrush {
/// Two reports side by side, for a terminal: what differs in their context, then every rung of either with
/// its difference, B over A, and interval.
std::string compare_reports(const std::filesystem::path& a, const std::filesystem::path& b);
}  // namespace optrush
