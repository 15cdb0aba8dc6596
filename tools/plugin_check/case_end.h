#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "optrush/error.h"
#include "optrush/json.h"

namespace optrush {
/// How a case of `optrush check` ended. `refused` counts as success: the plugins refused the stack with a
/// reason.
enum class CaseStatus : uint8_t { ok, refused, skipped, failed, not_run };
std::string_view to_string(CaseStatus);
std::span<const std::string_view> names_of(CaseStatus);

/// How a case of `optrush check` ended, as stored by its worker, its journal and its JSON output.
struct CaseEnd {
  CaseStatus status = CaseStatus::not_run;
  std::string detail = {};             ///< what was checked, or the reason why it was not
  std::optional<ErrorCode> code = {};  ///< of the error, if the case was refused, skipped or failed
  double seconds = 0;
};
/// The end of a case by an error.
CaseEnd ended_by(const Error&, CaseStatus);

Json to_json(const CaseEnd&);
/// Throws an Error if a field is unknown, missing or of another type.
CaseEnd case_end_from_json(const Json&);
}  // namespace optrush
