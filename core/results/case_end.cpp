#include "results/case_end.h"

#include "spec/record.h"

namespace optrush {
namespace {
const Record<CaseEnd>& case_record() {
  using E = CaseEnd;
  static const auto record = Record<E>("the end of a case")
                                 .field("status", &E::status, {.required = true})
                                 .field("detail", &E::detail, {.required = true})
                                 .field("code", &E::code, {.left_out = true})
                                 .field("seconds", &E::seconds, {.required = true});
  return record;
}
}  // namespace

CaseEnd ended_by(const Error& error, CaseStatus status) { return {status, error.what(), error.code()}; }

Json to_json(const CaseEnd& end) { return case_record().write(end); }
CaseEnd case_end_from_json(const Json& json) { return case_record().read(json); }
}  // namespace optrush
