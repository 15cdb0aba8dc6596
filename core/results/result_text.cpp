#include "results/result_text.h"

#include <vector>

#include "base/files.h"
#include "optrush/error.h"

namespace optrush {
namespace {
void leave_out(Json& object, const char* name) {
  if (const auto part = object.find(name); part != object.end()) *part = nullptr;
}

constexpr const char* kDetailsOfCosts[] = {"operators", "phases"};
}  // namespace

void leave_out(RunResult& result, const ResultParts& keep) {
  if (!keep.plan) result.plan.reset();
  if (keep.details) return;
  for (StepResult& step : result.steps) step.phases.clear();
  for (const char* largest : kDetailsOfCosts) leave_out(result.costs, largest);
}

RunResult run_result_from_text(std::string_view text, const std::string& where, const ResultParts& keep) try {
  std::vector<StepResult> steps;
  Json document = parse_json(text, where, {"steps", [&](Json step) {
                                             if (!keep.details) leave_out(step, "phases");
                                             steps.push_back(fields_of<StepResult>().read(step));
                                           }});
  if (!keep.plan) leave_out(document, "plan");
  if (const auto costs = document.find("costs"); !keep.details && costs != document.end())
    for (const char* largest : kDetailsOfCosts) leave_out(*costs, largest);
  RunResult result = run_result_from_json(document, where);
  steps.shrink_to_fit();
  result.steps = std::move(steps);
  return result;
} catch (const Error&) {
  run_result_from_json(parse_stored(text, where), where);  // of several errors, the first in order of fields
  throw;
}
}  // namespace optrush
