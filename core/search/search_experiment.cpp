#include "search/search_experiment.h"

#include "base/files.h"
#include "base/suggest.h"
#include "experiment/spec_difference.h"
#include "launch/folder.h"
#include "launch/journal.h"
#include "optrush/error.h"
#include "search/stage_evaluator.h"

namespace optrush {
namespace fs = std::filesystem;
namespace {
constexpr const char* kStages = "tried";

/// Refuses invalid combinations before anything runs.
void check(const Experiment& experiment, const RunRequest& run) {
  if (!run.only.empty())
    throw UsageError("--only cannot be combined with a search, which chooses its rungs", "leave out --only");
  if (!experiment.until)
    throw UsageError("--rounds cannot be combined with a search, which runs as many rounds as needed",
                     "limit it with --within and --at-most");
}

/// Keeps the stages of an earlier search only if this one resumes it.
void prepare(const fs::path& folder, const Experiment& experiment, bool resume) {
  if (resume || !(fs::exists(folder / kStages) || has_report(folder))) return;
  check_replaceable(folder, experiment);
  fs::remove_all(folder / kStages);
  fs::remove(folder / "tried.json");
}

/// `decides_s`: additional seconds that a search without an answer would need.
Json as_json(const Found& found, const Stacks& stacks, double decides_s) {
  Json stages = Json::array();
  for (const SearchStage& stage : found.stages) {
    Json rows = Json::array();
    for (const Considered& each : stage.stacks)
      rows.push_back({{"stack", stacks.name(each.stack)},
                      {"change", stacks.change(stage.reference, each.stack)},
                      {"speed", each.trial.ok ? Json(each.trial.speed) : Json()},
                      {"rounds", each.trial.rounds},
                      {"faster", each.trial.faster},
                      {"result", each.trial.ok ? each.trial.said : each.reason}});
    stages.push_back({{"reference", stacks.name(stage.reference)}, {"stacks", rows}});
  }
  return {{"schema_version", 1},
          {"best", stacks.name(found.best)},
          {"finished", found.finished},
          {"answered", found.answered},
          {"decides_s", found.answered ? Json() : Json(decides_s)},
          {"stages", stages}};
}

/// A ladder with one rung per part, the largest gain first.
Part ladder_of(const Picks& best, const Stacks& stacks) {
  Part ladder;
  Picks below;
  for (const Pick& pick : best) {
    Picks here = below;
    here.push_back(pick);
    ladder.rungs.push_back(rung_between(stacks.spec(below), stacks.spec(here), stacks.name(pick)));
    below = std::move(here);
  }
  return ladder;
}
}  // namespace

RunOutcome search_experiment(const Experiment& experiment, const SearchRequest& request,
                             const RunRequest& run, Progress& progress) {
  check(experiment, run);
  const fs::path folder = report_folder(run.reports, experiment);
  const Stacks stacks(experiment, request);
  Found found;
  Experiment result = experiment;
  RunRequest shared = run;
  double decides_s = 0;
  {
    fs::create_directories(folder);
    const FolderLock lock(folder);
    prepare(folder, experiment, run.resume);
    StageEvaluator evaluator(experiment, request, stacks, run, folder / kStages, progress);
    try {
      found = search(stacks.choices(), evaluator);
    } catch (const StageInterrupted& interrupted) {
      return {interrupted.folder, true, interrupted.signal, interrupted.finished};
    }
    result.until->at_most_s = std::max(1.0, evaluator.seconds_left());
    shared.machine = evaluator.machine();
    decides_s = evaluator.seconds_to_decide();
  }
  // The time is over: the base runs only for its row, so it may be shortened.
  if (!found.answered) result.base.validate.every = result.base.save.every = 0;
  result.parts = {ladder_of(found.best, stacks)};
  const RunOutcome outcome = run_experiment(Expanded(result), shared, progress);
  Journal(folder).write("tried.json", as_json(found, stacks, decides_s));
  return outcome;
}
}  // namespace optrush
