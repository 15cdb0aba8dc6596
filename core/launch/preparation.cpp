#include "launch/preparation.h"

#include <algorithm>
#include <set>

#include "base/number_text.h"
#include "base/text.h"
#include "checkpoint/check_checkpoint.h"
#include "checkpoint/written_config.h"
#include "launch/machine/context.h"
#include "launch/ranks/followers.h"
#include "launch/schedule/planner.h"
#include "optrush/error.h"
#include "results/context.h"

namespace optrush {
namespace {
/// `stored` for the present start. The report may contain runs of two builds, which is usually intended; a
/// warning states it.
Json continued(Json stored, const Json& seen, const Context& here, Runs& runs) {
  const std::string where = (runs.ledger().folder() / "context.json").string();
  const Context before = context_from_json(stored, where);
  if (const auto differ = difference_of_machines(before, here); !differ.empty())
    throw Error(
        ErrorCode::conflict,
        "the runs in '" + runs.ledger().folder().string() + "' were made on another machine: " + differ,
        "use a different --label, and compare the two reports");
  if (const auto warning = difference_of_builds(before, here); !warning.empty()) {
    runs.progress().note(warning, Colour::yellow);
    if (Json& warnings = stored["warnings"]; std::ranges::find(warnings, Json(warning)) == warnings.end())
      warnings.push_back(warning);
  }
  for (const char* key : {"script", "script_sha256"}) stored[key] = seen[key];
  return stored;
}

void tell_warnings(Runs& runs) {
  std::set<std::string> told;
  for (const auto& variant : runs.ledger().variants())
    if (runs.ledger().schedule().wanted(variant))
      for (const auto& warning : {untrained_positions(variant.spec), unwritable(variant.spec)})
        if (warning && told.insert(*warning).second)
          runs.progress().note("warning: " + *warning, Colour::yellow);
}

/// What will run, and when it ends.
std::string course_of(const Ledger& ledger) {
  const auto rungs = std::ranges::count_if(ledger.variants(), [&](const Variant& variant) {
    return variant.index != 0 && variant.has_own_runs() && ledger.schedule().wanted(variant) &&
           ledger.plans().at(static_cast<size_t>(variant.index));
  });
  const Experiment& experiment = ledger.experiment();
  const auto& until = experiment.until;
  return experiment.name + ": the base" + (rungs == 0 ? "" : " and " + counted(rungs, "rung")) + ", " +
         length_of(experiment.base.train) + " per run, " +
         (until ? "until each interval is within " + percent(until->within) + " or " +
                      clock_time(until->at_most_s) + " are over"
                : "in " + counted(experiment.rounds, "round"));
}
}  // namespace

void inspect_machine(Runs& runs) {
  Ledger& ledger = runs.ledger();
  const RunRequest& request = runs.request();
  const Json& stored = ledger.context();
  // A failed context is not kept: the next controller measures again.
  const bool known = stored.is_object() && !stored.contains("doctor");
  runs.progress().stage("inspecting the machine");
  auto seen = known || request.machine.is_null()
                  ? describe_machine(ledger.experiment(), *request.workers, known, runs.interrupts())
                  : std::optional(request.machine);
  if (!seen) return;
  if (request.followers != nullptr) (*seen)["hosts"] = request.followers->hosts();
  const Context here = context_from_json(*seen, "the worker's doctor");
  runs.starter().machine_has(std::ssize(here.gpus));
  if (!known) return ledger.describe(std::move(*seen));
  if (here.doctor.empty()) return ledger.describe(continued(stored, *seen, here, runs));
  runs.progress().note("cannot check that this is the same machine: " + here.doctor, Colour::yellow);
  ledger.describe(stored);
}

void make_plans(Runs& runs) {
  Ledger& ledger = runs.ledger();
  const RunRequest& request = runs.request();
  auto& [variants, schedule, plans] = ledger.outline();
  const auto failures =
      plan_all(ledger.experiment(), variants, schedule, plans,
               {.workers = *request.workers,
                .limits = {.timeout_s = request.plan_timeout_s},
                .refused_before = ledger.refused_before(),
                .folder = ledger.folder()},
               runs.interrupts(), [&](const Variant& variant) {
                 runs.progress().stage("planning " + std::to_string(variant.index + 1) + "/" +
                                       std::to_string(ledger.variants().size()) + ": " + variant.name);
               });
  if (!failures) return;
  tell_warnings(runs);
  ledger.plan(*failures);
  runs.tell_notes();
  for (const NoPlan& each : *failures)
    runs.progress().note(ledger.variant(each.variant).name + ": " +
                             std::string(to_string(each.failure.status)) + ", " + each.failure.reason,
                         each.failure.status == Status::skipped ? Colour::yellow : Colour::red);
  runs.progress().note(course_of(ledger));
}
}  // namespace optrush
