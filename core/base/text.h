#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace optrush {
/// How long something takes, for people: "0.4 s", "12 s", "3 min 5 s", "1 h 2 min".
std::string clock_time(double seconds);
/// The present moment, "2026-08-01T12:00:00Z".
std::string utc_now();
/// The first line of an error's text, and its cure in parentheses: "no GPU can be used (run with --device
/// cpu)".
std::string with_cure(std::string_view error);
/// Every placeholder replaced by its value, one pair after the other: a value may hold a later placeholder.
std::string filled_in(std::string text, const std::vector<std::pair<std::string, std::string>>& values);
}  // namespace optrush
