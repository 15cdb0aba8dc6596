#pragma once
#include <optional>
#include <string>

#include "optrush/json.h"
#include "results/status.h"

namespace optrush {
/// How a case of `optrush check` ended, as its worker, its journal and its results for programs have it.
struct CaseEnd {
  CaseStatus status = CaseStatus::not_run;
  std::string detail = {};             ///< what was checked, or why it was not
  std::optional<ErrorCode> code = {};  ///< of a case that was refused, skipped or failed
  double seconds = 0;
};
/// Of the error that ended it.
CaseEnd ended_by(const Error&, CaseStatus);

Json to_json(const CaseEnd&);
/// An Error where a field is unknown, missing or of another type.
CaseEnd case_end_from_json(const Json&);
}  // namespace optrush
