#include "cli/run_host.h"

#include <algorithm>
#include <iostream>

#include "base/log.h"
#include "base/text.h"
#include "cli/commands.h"
#include "launch/folder.h"
#include "launch/live_tracker.h"
#include "launch/progress.h"
#include "launch/schedule/needs.h"
#include "process/terminal.h"
#include "report/report.h"
#include "search/search_experiment.h"

namespace optrush {
namespace {
/// With the log on the same terminal, a live progress line would be torn.
Terminal progress_terminal() {
  Terminal terminal = Terminal::of(2);
  if (log::enabled()) terminal.live = false;
  return terminal;
}
}  // namespace

Expanded RunHost::prepared_once(const Experiment& described) {
  Expanded expanded = prepared(described);
  const Experiment& experiment = expanded.experiment;
  if (!folders_.insert(report_folder(request().reports, experiment)).second)
    throw Error(ErrorCode::conflict,
                "the script runs '" + experiment.name + "' with the label '" + experiment.label + "' twice",
                "change the name of one of them, or its label in exp:run { label = ... }");
  return expanded;
}

std::filesystem::path RunHost::conclude(const RunOutcome& outcome, Progress& progress) {
  progress.stage("writing the report");
  // A signal may arrive before there are results, for example while a search plans its first stage.
  const bool any = outcome.signal == 0 || has_report(outcome.folder);
  if (any) {
    WrittenReport written = write_report(outcome.folder);
    if (!written.warning.empty()) progress.note("warning: " + written.warning, Colour::yellow);
    written_ = {outcome.folder, std::move(written.analysis)};
  }
  if (outcome.signal != 0)
    throw Interrupted(outcome.signal,
                      "complete runs are kept in " + outcome.folder.string() + "; " + resume_hint_);
  const Analysis& analysis = written_->second;
  const bool nothing_measured = std::ranges::none_of(analysis.rows, &Row::ok);
  if (nothing_measured) {
    const Row& base = analysis.rows.front();
    progress.note("nothing was measured: " + base.name + " ended as '" + std::string(to_string(base.status)) +
                      "': " + first_line(base.reason),
                  Colour::red);
  }
  if (!outcome.all_ok || nothing_measured || analysis.any_failed()) all_ok_ = false;
  return outcome.folder;
}

void RunHost::check_needs(const Expanded& expanded) const {
  Interrupts interrupts;
  if (!request().track.empty()) LiveTracker::check(request().track, interrupts);
  if (!request().skip_missing) require_what_is_needed(expanded, request().only, interrupts);
  if (interrupts.signal() != 0) throw Interrupted(interrupts.signal(), "nothing was run");
}

std::filesystem::path RunHost::run(const Experiment& described) {
  const Expanded expanded = prepared_once(described);
  check_needs(expanded);
  Progress progress(progress_terminal());
  return conclude(run_experiment(expanded, request(), progress), progress);
}

std::filesystem::path RunHost::search(const Experiment& described, const SearchRequest& wanted) {
  const Experiment experiment = prepared_once(described).experiment;
  check_needs(Expanded(each_alone(experiment, wanted)));
  Progress progress(progress_terminal());
  return conclude(search_experiment(experiment, wanted, request(), progress), progress);
}

std::optional<bool> RunHost::holds(const MemoryTrial& asked) {
  const MemoryTrial trial = with_tokens(asked);
  if (request().resume)
    if (const auto answer = remembered(trial)) return answer;
  Progress progress(progress_terminal());
  progress.stage("trying micro-batch " + std::to_string(trial.spec.train.micro_batch));
  return try_out(trial);
}

void RunHost::report(const std::filesystem::path& folder) {
  if (!written_ || written_->first != folder) written_ = {folder, analyze(folder, {})};
  std::cout << as_typed(ladder_table(written_->second, output_columns())) << "\n"
            << (folder / "report.md").string() << std::endl;
}
}  // namespace optrush
