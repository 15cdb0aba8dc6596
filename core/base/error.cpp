#include "optrush/error.h"

#include <array>
#include <utility>

namespace optrush {
namespace {
constexpr std::array<std::string_view, 22> kNames = {
    "unsupported", "unknown_name",   "missing_value", "invalid_value", "conflict",    "wrong_ranks",
    "usage",       "script_error",   "missing_file",  "invalid_file",  "file_access", "missing_requirement",
    "network",     "invalid_plugin", "diverged",      "wrong_result",  "rank_lost",   "out_of_memory",
    "timeout",     "crashed",        "interrupted",   "internal"};

std::string join(const std::string& what, const std::string& cure, const std::string& where) {
  std::string text = where.empty() ? what : where + ": " + what;
  if (!cure.empty()) text += "\n  hint: " + cure;
  return text;
}
}  // namespace

std::string_view to_string(ErrorCode code) { return kNames.at(static_cast<size_t>(code)); }
std::span<const std::string_view> names_of(ErrorCode) { return kNames; }

Error::Error(ErrorCode code, std::string what, std::string cure, std::string where)
    : std::runtime_error(join(what, cure, where)),
      code_(code),
      message_(std::move(what)),
      cure_(std::move(cure)),
      where_(std::move(where)) {}

Error::Error(std::string what, std::string cure, std::string where)
    : Error(ErrorCode::unsupported, std::move(what), std::move(cure), std::move(where)) {}

Error Error::at(const std::string& where) const {
  return where_.empty() ? Error(code_, message_, cure_, where) : *this;
}

Skip::Skip(std::string what, std::string cure, std::string where)
    : Error(ErrorCode::missing_requirement, std::move(what), std::move(cure), std::move(where)) {}

UsageError::UsageError(std::string what, std::string cure, std::string where)
    : Error(ErrorCode::usage, std::move(what), std::move(cure), std::move(where)) {}
}  // namespace optrush
