#include "optrush/error_code.h"

#include <array>

namespace optrush {
namespace {
constexpr std::array<std::string_view, 22> kNames = {
    "unsupported", "unknown_name",   "missing_value", "invalid_value", "conflict",    "wrong_ranks",
    "usage",       "script_error",   "missing_file",  "invalid_file",  "file_access", "missing_requirement",
    "network",     "invalid_plugin", "diverged",      "wrong_result",  "rank_lost",   "out_of_memory",
    "timeout",     "crashed",        "interrupted",   "internal"};
}  // namespace

std::string_view to_string(ErrorCode code) { return kNames.at(static_cast<size_t>(code)); }
std::span<const std::string_view> names_of(ErrorCode) { return kNames; }
}  // namespace optrush
