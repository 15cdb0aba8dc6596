#include "launch/controller.h"

#include <unistd.h>

#include <algorithm>
#include <deque>
#include <limits>
#include <random>
#include <set>

#include "analysis/checked_rows.h"
#include "base/number_text.h"
#include "base/seconds_since.h"
#include "base/text.h"
#include "checkpoint/check_checkpoint.h"
#include "checkpoint/written_config.h"
#include "launch/fork_server.h"
#include "launch/interleaving/interleaved_round.h"
#include "launch/ledger/next.h"
#include "launch/live_tracker.h"
#include "launch/machine.h"
#include "launch/progress.h"
#include "launch/ranks/remote_ranks.h"
#include "launch/runs.h"
#include "launch/schedule/time_limit.h"
#include "measure/cpu_info.h"
#include "optrush/error.h"

namespace optrush {
namespace fs = std::filesystem;

namespace {
using Clock = std::chrono::steady_clock;

void check_worker(const fs::path& worker) {
  if (access(worker.c_str(), X_OK) != 0)
    throw Error(ErrorCode::missing_file, "'" + worker.string() + "' is missing or not executable",
                "build it: ./optrush setup, or the target optrush-worker");
}

/// A unique name for a group of interleaved runs in this report.
std::string group_id(int64_t round) {
  static constexpr const char* kDigits = "0123456789abcdef";
  std::random_device random;
  std::string id = "r" + std::to_string(round + 1) + "-";
  for (int i = 0; i < 12; ++i) id += kDigits[random() % 16];
  return id;
}

/// `stored` for the present start. The report may contain runs of two builds, which is usually intended; a
/// warning states it.
Json continued(Json stored, const Json& seen, const Context& here, const fs::path& folder,
               Progress& progress) {
  const Context before = context_from_json(stored, (folder / "context.json").string());
  if (const auto differ = difference_of_machines(before, here); !differ.empty())
    throw Error(ErrorCode::conflict,
                "the runs in '" + folder.string() + "' were made on another machine: " + differ,
                "use a different --label, and compare the two reports");
  if (const auto warning = difference_of_builds(before, here); !warning.empty()) {
    progress.note(warning, Colour::yellow);
    if (Json& warnings = stored["warnings"]; std::ranges::find(warnings, Json(warning)) == warnings.end())
      warnings.push_back(warning);
  }
  for (const char* key : {"script", "script_sha256"}) stored[key] = seen[key];
  return stored;
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

/// Performs one action after another.
class Controller {
 public:
  Controller(const Expanded& expanded, const RunRequest& request, Progress& progress)
      : request_(request),
        progress_(progress),
        ledger_(expanded, request),
        runs_(ledger_, request, interrupts_, progress),
        noise_(ledger_.folder() / "noise.jsonl", request.probe_s),
        peaks_(ledger_.folder(), *request.workers, ledger_.experiment().base, interrupts_) {}

  RunOutcome conduct() {
    runs_.print_notes();
    if (!request_.only.empty())
      progress_.note("--only: " + join(ledger_.schedule().only()) + ", and the base");
    while (interrupts_.poll() == 0) {
      Action action = next(ledger_, request_, now());
      if (std::holds_alternative<Stop>(action)) break;
      std::visit([this](auto& one) { perform(one); }, action);
    }
    end_tracking();
    if (interrupts_.signal() == 0)
      ledger_.end();
    else
      ledger_.interrupt(interrupts_.describe());
    return {ledger_.folder(), ledger_.all_ok(), interrupts_.signal()};
  }

 private:
  Moment now() const {
    const auto& round = ledger_.round();
    const bool may_begin = ledger_.planned() && (!round || round->ended);
    return {began_ ? seconds_since(*began_) : 0,
            may_begin ? static_cast<double>(read_cpu().available_bytes) : 0};
  }

  // First, so that a resume on another machine is refused before it changes anything.
  void perform(const Inspect&) {
    inspect_machine();
    ledger_.begin_report();
  }

  /// Describes the machine, once per report, because all its runs are from one machine.
  void inspect_machine() {
    const Json& stored = ledger_.context();
    // A failed context is not kept: the next controller measures again.
    const bool known = stored.is_object() && !stored.contains("doctor");
    progress_.stage("inspecting the machine");
    auto seen = known || request_.machine.is_null()
                    ? describe_machine(ledger_.experiment(), *request_.workers, known, interrupts_)
                    : std::optional(request_.machine);
    if (!seen) return;
    if (request_.remote_ranks != nullptr) (*seen)["hosts"] = request_.remote_ranks->hosts();
    const Context here = context_from_json(*seen, "the worker's doctor");
    runs_.starter().machine_has(std::ssize(here.gpus));
    if (known && !here.doctor.empty()) {
      progress_.note("cannot check that this is the same machine: " + here.doctor, Colour::yellow);
      seen = stored;
    } else if (known) {
      seen = continued(stored, *seen, here, ledger_.folder(), progress_);
    }
    ledger_.describe(std::move(*seen));
  }

  void perform(const MakePlans&) {
    auto& [variants, schedule, plans] = ledger_.outline();
    const auto failures = plan_all(ledger_.experiment(), variants, schedule, plans,
                                   {.workers = *request_.workers,
                                    .limits = {.timeout_s = request_.plan_timeout_s},
                                    .refused_before = ledger_.refused_before(),
                                    .folder = ledger_.folder()},
                                   interrupts_, [&, &all = variants](const Variant& variant) {
                                     progress_.stage("planning " + std::to_string(variant.index + 1) + "/" +
                                                     std::to_string(all.size()) + ": " + variant.name);
                                   });
    if (!failures) return;
    print_warnings();
    ledger_.plan(*failures);
    runs_.print_notes();
    for (const auto& [index, each] : *failures)
      progress_.note(ledger_.variant(index).name + ": " + std::string(to_string(each.failure.status)) + ", " +
                         each.failure.reason,
                     each.failure.status == Status::skipped ? Colour::yellow : Colour::red);
    progress_.note(course_of(ledger_));
  }

  void print_warnings() {
    std::set<std::string> printed;
    for (const auto& variant : ledger_.variants())
      if (ledger_.schedule().wanted(variant)) {
        auto warnings = warnings_of_checkpoint(variant.spec);
        if (const auto warning = unwritable(variant.spec)) warnings.push_back(*warning);
        for (const auto& warning : warnings)
          if (printed.insert(warning).second) progress_.note("warning: " + warning, Colour::yellow);
      }
  }

  void perform(BeginRound& begin) {
    if (begin.round.number == 0) begin_measuring();
    const bool over = begin.round.over;
    ledger_.begin_round(std::move(begin.round));
    runs_.print_notes();
    if (!over) runs_.starter().begin_round();
    runs_.begin_race();
    round_began_ = Clock::now();
  }

  void begin_measuring() {
    if (request_.resume) print_complete_runs();
    if (!request_.track.empty()) {
      refuse_stand_in(ledger_.context(), "--track");
      tracker_.emplace(request_.track, ledger_.folder(), ledger_.experiment().name, interrupts_);
    }
    began_ = request_.began.value_or(Clock::now());
  }

  void print_complete_runs() {
    auto jobs = ledger_.schedule().all(ledger_.plans());
    if (ledger_.schedule().open())
      for (int64_t round = 1; !ledger_.begun(round).empty(); ++round)
        for (const int64_t variant : ledger_.begun(round))
          jobs.push_back(ledger_.schedule().measured(ledger_.variant(variant), round));
    const auto done = std::ranges::count_if(jobs, [&](const Job& job) { return ledger_.is_stored(job); });
    progress_.note(std::to_string(done) + " of " + std::to_string(jobs.size()) +
                   " runs are already complete");
  }

  void end_tracking() {
    if (!tracker_) return;
    progress_.stage("writing for " + request_.track);
    if (const std::string problem = tracker_->problem(); !problem.empty())
      progress_.note("--track " + request_.track + " ended before the runs: " + problem, Colour::yellow);
    tracker_.reset();
  }

  void perform(const Probe& probe) {
    progress_.stage("checking machine noise");
    noise_.look(probe.rounds);
    if (!ledger_.probed()) round_began_ = Clock::now();
    ledger_.probe(probe.rounds);
  }

  void perform(const RunGroup& group) {
    ledger_.begin_interleaving(group.jobs);
    runs_.begin_race();  // without the runs that are made again
    runs_.print_notes();
    const int64_t round = ledger_.round()->number;
    std::vector<Job> ordered;
    for (const size_t i : start_order(group.jobs.size(), round)) ordered.push_back(group.jobs[i]);
    const InterleavedRound::Terms terms{group_id(round), steps_of_round(), group.counts_when_cut};
    for (const Job& job : InterleavedRound(ordered, terms, runs_).conduct()) {
      progress_.note(job.spec.rung + " ran out of memory beside the others; it is rerun alone",
                     Colour::yellow);
      ledger_.run_alone(job);
    }
    ledger_.end_interleaving();
  }

  void perform(const RunOne& one) {
    if (one.in_turns)
      InterleavedRound({one.job}, {"", steps_of_round(), false, one.prepared}, runs_).conduct();
    else
      runs_.run_alone(one.job);
  }

  /// The number of timed steps for the runs of the round, when the first are ready.
  std::function<int64_t(const std::map<int64_t, RunCost>&)> steps_of_round() {
    return [this](const std::map<int64_t, RunCost>& costs) {
      const Round& round = *ledger_.round();
      if (!round.paced) return std::numeric_limits<int64_t>::max();
      if (!round.steps) {
        const FirstRound first =
            limit_first_round(ledger_.experiment(), round.jobs.size(), costs, now().seconds);
        if (!first.note.empty()) progress_.note(first.note, Colour::yellow);
        ledger_.limit_steps(first.steps, !first.note.empty());
      }
      return *round.steps;
    };
  }

  void perform(const EndRound&) {
    const Round& round = *ledger_.round();
    ledger_.end_round(round.any && !round.begun_before ? std::optional(seconds_since(round_began_))
                                                       : std::nullopt);
    const int64_t rounds = round.number + 1;
    if (rounds >= rounds_of(ledger_.experiment()).value_or(kMostRounds)) return;
    if (auto context = peaks_.look(rounds, ledger_.context())) ledger_.describe(std::move(*context));
  }

  void perform(const CheckGate& check) {
    const Stored stored = ledger_.stored();
    VariantRuns runs(stored.variants, stored.runs);
    std::deque<StoredRun> made;  // a deque, because CheckedRows keeps references to its elements
    CheckedRows rows(stored);
    for (const Variant& variant : stored.variants)
      while (interrupts_.signal() == 0) {
        const auto jobs = gate_jobs(ledger_, rows.update(variant, runs), rows.usable(), check.last);
        if (jobs.empty()) break;
        for (const Job& job : jobs) {
          if (interrupts_.poll() != 0) break;
          const RunResult* stored_before = ledger_.accept(job);
          runs_.print_notes();
          const auto result = stored_before != nullptr ? std::optional(*stored_before) : runs_.run_alone(job);
          if (result) runs.add(made.emplace_back(StoredRun{job.id, job.spec, *result}));
        }
      }
    ledger_.check_gate();
  }

  void perform(const Stop&) {}

  const RunRequest& request_;
  Progress& progress_;
  Interrupts interrupts_;
  Ledger ledger_;
  Runs runs_;
  NoiseLog noise_;
  PeakLog peaks_;
  std::optional<LiveTracker> tracker_;
  std::optional<Clock::time_point> began_;  ///< start of the time limit; none: before the first run
  Clock::time_point round_began_;
};
}  // namespace

RunOutcome run_experiment(const Expanded& expanded, const RunRequest& request, Progress& progress) {
  check_worker(request.worker);
  ForkServer workers(request.worker);
  RunRequest own = request;
  if (own.workers == nullptr) own.workers = &workers;
  return Controller(expanded, own, progress).conduct();
}
}  // namespace optrush
