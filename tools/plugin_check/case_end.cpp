#include "plugin_check/case_end.h"

#include <array>

#include "spec/record.h"

namespace optrush {
namespace {
constexpr std::array<std::string_view, 5> kCaseNames = {"ok", "refused", "skipped", "failed", "not run"};
}  // namespace

static Record<CaseEnd> record_of(const CaseEnd*) {
  using E = CaseEnd;
  return Record<E>("the end of a case")
      .field("status", &E::status, {.required = true})
      .field("detail", &E::detail, {.required = true})
      .field("code", &E::code, {.left_out = true})
      .field("seconds", &E::seconds, {.required = true});
}

std::string_view to_string(CaseStatus status) { return kCaseNames.at(static_cast<size_t>(status)); }
std::span<const std::string_view> names_of(CaseStatus) { return kCaseNames; }

CaseEnd ended_by(const Error& error, CaseStatus status) { return {status, error.what(), error.code()}; }

Json to_json(const CaseEnd& end) { return fields_of<CaseEnd>().write(end); }
CaseEnd case_end_from_json(const Json& json) { return fields_of<CaseEnd>().read(json); }
}  // namespace optrush
