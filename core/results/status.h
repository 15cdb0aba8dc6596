#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "optrush/error.h"

namespace optrush {
/// How a run ended.
enum class Status : uint8_t { ok, oom, failed, crashed, timeout, skipped, broken };
std::string_view to_string(Status);
std::span<const std::string_view> names_of(Status);

/// Why a run ended that did not end well, where more is known than its reason says to people.
enum class Cause : uint8_t { own, peer, timeout, lost, missing };
std::string_view to_string(Cause);
std::span<const std::string_view> names_of(Cause);

/// How a case of `optrush check` ended. A stack that its plugins refuse with a reason is as good as one that
/// trains.
enum class CaseStatus : uint8_t { ok, refused, skipped, failed, not_run };
std::string_view to_string(CaseStatus);
std::span<const std::string_view> names_of(CaseStatus);

/// The code of an end of which no more is known than its status; internal for `failed`.
ErrorCode code_of(Status);

/// The end of a run that did not end well: its status, the reason, and of an error its code and place.
struct BadEnd {
  Status status = Status::failed;
  std::string reason = {};
  std::optional<ErrorCode> code = {};  ///< none: that of the status
  std::string where = {};
};
ErrorCode code_of(const BadEnd&);
/// With the code and place of an error that ended it.
BadEnd failed(const Error&, std::string reason);
}  // namespace optrush
