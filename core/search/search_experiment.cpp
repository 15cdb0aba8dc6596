#include "search/search_experiment.h"

#include "base/files.h"
#include "launch/folder.h"
#include "optrush/error.h"
#include "results/journal.h"
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
  // The list of stacks is written again at the end. A report refuses one that was changed since.
  const fs::path tried = folder / "tried.json";
  if (resume && is_there(tried) && !Journal(folder).agree(tried)) fs::remove(tried);
  if (resume || !(fs::exists(folder / kStages) || has_report(folder))) return;
  check_replaceable(folder, experiment);
  fs::remove_all(folder / kStages);
  fs::remove(tried);
}

Tried tried_of(const Found& found, const Stacks& stacks) {
  Tried tried{.best = stacks.name(found.best), .finished = found.finished, .answered = found.answered};
  for (const SearchStage& stage : found.stages) {
    TriedStage& of_stage = tried.stages.emplace_back(TriedStage{stacks.name(stage.reference), {}});
    for (const Considered& each : stage.stacks)
      of_stage.stacks.push_back({.stack = stacks.name(each.stack),
                                 .change = stacks.change(stage.reference, each.stack),
                                 .speed = each.trial.ok ? std::optional(each.trial.speed) : std::nullopt,
                                 .rounds = static_cast<int64_t>(each.trial.rounds),
                                 .faster = each.trial.faster,
                                 .result = each.trial.ok ? each.trial.result : each.reason});
  }
  return tried;
}

/// A ladder with one rung per part, the largest gain first.
Part ladder_of(const Picks& best, const Stacks& stacks) {
  Part ladder;
  Picks below;
  for (const Pick& pick : best) {
    Picks here = below;
    here.push_back(pick);
    ladder.rungs.push_back(rung_between(stacks.variant(below), stacks.variant(here), stacks.name(pick)));
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
    const Descriptor lock = lock_folder(folder);
    prepare(folder, experiment, run.resume);
    StageEvaluator evaluator(experiment, request, stacks, run, folder / kStages, progress);
    try {
      found = search(stacks.choices(), evaluator);
    } catch (const StageInterrupted& interrupted) {
      return {interrupted.folder, true, interrupted.signal};
    }
    result.until->at_most_s = std::max(1.0, evaluator.seconds_left());
    shared.machine = evaluator.machine();
    decides_s = evaluator.seconds_to_decide();
  }
  // The time is over: the base runs only for its row, so it may be shortened.
  if (!found.answered) result.base.validate.every = result.base.save.every = 0;
  result.parts = {ladder_of(found.best, stacks)};
  const RunOutcome outcome = run_experiment(Expanded(result), shared, progress);
  Tried tried = tried_of(found, stacks);
  if (!found.answered) tried.decides_s = decides_s;
  Journal(folder).write("tried.json", record::written(tried));
  return outcome;
}
}  // namespace optrush
