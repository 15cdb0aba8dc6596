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

/// The cause of a failure, where more is known than the text of the reason.
enum class Cause : uint8_t { own, peer, timeout, lost, missing };
std::string_view to_string(Cause);
std::span<const std::string_view> names_of(Cause);

/// The code for a status without a known error; `internal` for `failed`.
ErrorCode code_of(Status);

/// The end of a failed run: status, reason, and the code and place of the error.
struct BadEnd {
  Status status = Status::failed;
  std::string reason = {};
  std::optional<ErrorCode> code = {};  ///< none: code_of(status)
  std::string where = {};
};
ErrorCode code_of(const BadEnd&);
/// The end by an error, with its code and place.
BadEnd failed(const Error&, std::string reason);
}  // namespace optrush
