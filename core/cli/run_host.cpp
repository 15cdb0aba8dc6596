#include "cli/run_host.h"

#include <algorithm>
#include <iostream>

#include "base/log.h"
#include "base/text.h"
#include "cli/interrupted.h"
#include "launch/folder.h"
#include "launch/run/restart.h"
#include "launch/schedule/needs.h"
#include "launch/tracker/live_tracker.h"
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

RunHost::RunHost(RunRequest request, Overrides overrides, std::string resume_hint)
    : AskingHost(request, overrides.label.value_or("")),
      request_(std::move(request)),
      overrides_(std::move(overrides)),
      resume_hint_(std::move(resume_hint)) {
  request_.workers = &workers();
}

Expanded RunHost::prepared(const Experiment& described) {
  Experiment overridden = described;
  apply(overrides_, overridden);
  Expanded expanded = model_tokens().of(std::move(overridden));
  const Experiment& experiment = expanded.experiment;
  check_restarts(expanded);
  if (!folders_.insert(report_folder(request_.reports, experiment)).second)
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
    throw Interrupted(outcome.signal, counted(static_cast<int64_t>(outcome.finished), "complete run") +
                                          " kept in " + outcome.folder.string() + "; " + resume_hint_);
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
  if (!request_.track.empty()) LiveTracker::check(request_.track, interrupts);
  if (!request_.skip_missing) require_what_is_needed(expanded, request_.only, interrupts);
  if (interrupts.signal() != 0) throw Interrupted(interrupts.signal(), "nothing was run");
}

std::filesystem::path RunHost::run(const Experiment& described) {
  const Expanded expanded = prepared(described);
  check_needs(expanded);
  Progress progress(progress_terminal());
  return conclude(run_experiment(expanded, request_, progress), progress);
}

std::filesystem::path RunHost::search(const Experiment& described, const SearchRequest& request) {
  const Experiment experiment = prepared(described).experiment;
  check_needs(Expanded(each_alone(experiment, request)));
  Progress progress(progress_terminal());
  return conclude(search_experiment(experiment, request, request_, progress), progress);
}

std::optional<bool> RunHost::holds(const MemoryTrial& asked) {
  const MemoryTrial trial = with_tokens(asked);
  if (request_.resume)
    if (const auto answer = trials().remembered(trial)) return answer;
  Progress progress(progress_terminal());
  progress.stage("trying micro-batch " + std::to_string(trial.spec.train.micro_batch));
  const bool several = trial.spec.train.world_size > 1;
  return trials().run(trial, several ? static_cast<int64_t>(gpus().size()) : 0);
}

void RunHost::report(const std::filesystem::path& folder) {
  if (!written_ || written_->first != folder) written_ = {folder, analyze(folder, {})};
  std::cout << ladder_table(written_->second) << "\n" << (folder / "report.md").string() << std::endl;
}
}  // namespace optrush
