#include "launch/controller.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <iterator>
#include <map>
#include <set>

#include "analysis/analysis.h"
#include "analysis/checked_rows.h"
#include "base/files.h"
#include "base/number_text.h"
#include "base/seconds_since.h"
#include "base/text.h"
#include "checkpoint/check_checkpoint.h"
#include "checkpoint/written_config.h"
#include "launch/execution.h"
#include "launch/folder.h"
#include "launch/fork_server.h"
#include "launch/machine/context.h"
#include "launch/machine/noise_log.h"
#include "launch/schedule/planner.h"
#include "launch/schedule/time_limit.h"
#include "launch/tracker/live_tracker.h"
#include "optrush/error.h"
#include "results/context.h"
#include "results/sums.h"
#include "spec/run_identity.h"
#include "spec/spec_json.h"

namespace optrush {
namespace fs = std::filesystem;

namespace {
void check_worker(const fs::path& worker) {
  if (access(worker.c_str(), X_OK) != 0)
    throw Error(ErrorCode::missing_file, "'" + worker.string() + "' is missing or not executable",
                "build it: ./optrush setup, or the target optrush-worker");
}

class Controller {
 public:
  Controller(const Expanded& expanded, const RunRequest& request, Progress& progress)
      : experiment_(expanded.experiment),
        request_(request),
        progress_(progress),
        runs_(expanded, request.only),
        folder_(report_folder(request.reports, experiment_)),
        lock_(folder_),
        execution_(experiment_, request, runs_,
                   begun_report(folder_, experiment_, request.resume,
                                [&](const std::string& text) { progress.note(text, Colour::yellow); }),
                   interrupts_, progress),
        came_to_end_(execution_.journal().came_to_end()),
        noise_(folder_ / "noise.jsonl", request.probe_s),
        peaks_(folder_, *request.workers, experiment_.base, execution_.journal(), interrupts_) {}

  RunOutcome conduct() {
    if (!request_.only.empty()) progress_.note("--only: " + join(runs_.schedule.only()) + ", and the base");
    // First, so that a resume on another machine is refused before it changes anything.
    const bool described = describe();
    if (!is_there(folder_ / "variants.json")) write_variants();
    if (described && plan()) measure();
    if (interrupts_.signal() == 0)
      execution_.journal().ended();
    else
      execution_.journal().interrupted(interrupts_.describe());
    return {folder_, execution_.all_ok(), interrupts_.signal()};
  }

 private:
  void write_variants() {
    execution_.journal().write("experiment.json", to_json(experiment_));
    execution_.journal().write("variants.json", all_as_json(runs_.variants));
  }

  static Json all_as_json(const std::vector<Variant>& variants) {
    Json list = Json::array();
    for (const auto& variant : variants) list.push_back(to_json(variant));
    return list;
  }

  void set_aside() {
    const Sums sums(folder_);
    const auto changed = set_aside_runs(folder_, [&](const fs::path& run) {
      const fs::path spec = run / "spec.json";
      return execution_.was_changed(run.filename()) || (is_there(spec) && !sums.agree(spec));
    });
    if (!changed.empty())
      progress_.note(
          "these runs are rerun, because their files were changed after they were written; they were "
          "moved to replaced/: " +
              join(changed),
          Colour::yellow);
    const auto strangers = set_aside_strangers(
        folder_, runs_.variants, rounds_of(experiment_),
        [&](const Variant& variant) { return execution_.keeps_state(variant); }, experiment_.seeds);
    for (const auto& [why, names] : strangers)
      progress_.note("these stored runs do not belong to the present experiment (" + why +
                         "); they were moved to replaced/: " + join(names),
                     Colour::yellow);
  }

  /// Writes context.json once per report, because all its runs are from one machine.
  bool describe() {
    const fs::path file = folder_ / "context.json";
    // A failed, damaged or edited context is not kept: the next controller measures again.
    std::optional<Json> there;
    if (is_there(file) && Sums(folder_).agree(file)) there = read_json(file);
    const bool known = there && !there->contains("doctor");
    progress_.stage("inspecting the machine");
    auto seen = known || request_.machine.is_null()
                    ? describe_machine(experiment_, *request_.workers, known, interrupts_)
                    : std::optional(request_.machine);
    if (!seen) return false;
    if (request_.followers != nullptr) (*seen)["hosts"] = request_.followers->hosts();
    const Context here = context_from_json(*seen, "the worker's doctor");
    execution_.machine_has(std::ssize(here.gpus));
    if (!known) {
      execution_.journal().write("context.json", *seen);
      return true;
    }
    if (!here.doctor.empty()) {
      progress_.note("cannot check that this is the same machine: " + here.doctor, Colour::yellow);
      return true;
    }
    const Context before = context_from_json(*there, file.string());
    if (const auto differ = difference_of_machines(before, here); !differ.empty())
      throw Error(ErrorCode::conflict,
                  "the runs in '" + folder_.string() + "' were made on another machine: " + differ,
                  "use a different --label, and compare the two reports");
    if (const auto warning = difference_of_builds(before, here); !warning.empty())
      note_other_build(*there, warning);
    for (const char* key : {"script", "script_sha256"}) (*there)[key] = (*seen)[key];
    execution_.journal().write("context.json", *there);
    return true;
  }

  /// The report may contain runs of two builds, which is usually intended; a warning states it.
  void note_other_build(Json& there, const std::string& warning) {
    progress_.note(warning, Colour::yellow);
    if (Json& warnings = there["warnings"]; std::ranges::find(warnings, Json(warning)) == warnings.end())
      warnings.push_back(warning);
  }

  /// Stored plans of variants that are not wanted now; their rows need them.
  std::map<int64_t, Json> plans_of_others() const {
    std::map<int64_t, Json> plans;
    const Sums sums(folder_);
    const fs::path variants = folder_ / "variants.json", file = folder_ / "plans.json";
    if (!request_.resume || !is_there(file) || !sums.agree(file) || !sums.agree(variants)) return plans;
    const Json before = read_json(variants), stored = read_json(file);
    for (size_t i = 0; i < std::min({before.size(), stored.size(), runs_.variants.size()}); ++i) {
      const Variant& variant = runs_.variants[i];
      if (!runs_.schedule.wanted(variant) &&
          spec_sha256(variant_from_json(before[i], variants.string()).spec) == spec_sha256(variant.spec))
        plans[variant.index] = stored[i];
    }
    return plans;
  }

  /// Rungs that were refused when the stored variants were written.
  std::set<std::string> passed_over() const {
    const fs::path file = folder_ / "variants.json";
    std::set<std::string> rungs;
    if (!Sums(folder_).agree(file)) return rungs;
    for (const Json& variant : read_json(file))
      for (auto& rung : variant_from_json(variant, file.string()).passed_over) rungs.insert(std::move(rung));
    return rungs;
  }

  bool plan() {
    const auto failures =
        plan_all(experiment_, runs_.variants, runs_.schedule, runs_.plans,
                 {.workers = *request_.workers,
                  .limits = {.timeout_s = request_.plan_timeout_s},
                  .refused_before = passed_over(),
                  .folder = folder_},
                 interrupts_, [&](const Variant& variant) {
                   progress_.stage("planning " + std::to_string(variant.index + 1) + "/" +
                                   std::to_string(runs_.variants.size()) + ": " + variant.name);
                 });
    if (!failures) return false;
    tell_warnings();
    const auto others = plans_of_others();
    // The final variants are known only now: a rung above a refused one has another stack.
    write_variants();
    set_aside();
    for (const NoPlan& each : *failures) {
      const Variant& variant = runs_.variants.at(static_cast<size_t>(each.variant));
      progress_.note(
          variant.name + ": " + std::string(to_string(each.failure.status)) + ", " + each.failure.reason,
          each.failure.status == Status::skipped ? Colour::yellow : Colour::red);
      if (variant.has_own_runs()) execution_.cannot_run(variant, each.failure);
    }
    Json list = Json::array();
    for (const auto& variant : runs_.variants) {
      const auto& plan = runs_.plans.at(static_cast<size_t>(variant.index));
      const auto other = others.find(variant.index);
      list.push_back(!plan && other != others.end() ? other->second : to_json(plan));
    }
    execution_.journal().write("plans.json", list);
    tell_plan();
    return true;
  }

  /// Prints what will run, and when it ends.
  void tell_plan() {
    const auto rungs = std::ranges::count_if(runs_.variants, [&](const Variant& variant) {
      return variant.index != 0 && variant.has_own_runs() && runs_.schedule.wanted(variant) &&
             runs_.plans.at(static_cast<size_t>(variant.index));
    });
    const TrainSpec& train = experiment_.base.train;
    const auto& until = experiment_.until;
    progress_.note(experiment_.name + ": the base" + (rungs == 0 ? "" : " and " + counted(rungs, "rung")) +
                   ", " + length_of(train) + " per run, " +
                   (until ? "until each interval is within " + percent(until->within) + " or " +
                                clock_time(until->at_most_s) + " are over"
                          : "in " + counted(experiment_.rounds, "round")));
  }

  void tell_warnings() {
    std::set<std::string> told;
    for (const auto& variant : runs_.variants)
      if (runs_.schedule.wanted(variant))
        for (const auto& warning : {untrained_positions(variant.spec), unwritable(variant.spec)})
          if (warning && told.insert(*warning).second) progress_.note("warning: " + *warning, Colour::yellow);
  }

  void measure() {
    if (request_.resume) tell_done();
    std::optional<LiveTracker> tracker;
    if (!request_.track.empty()) {
      refuse_stand_in(read_json(folder_ / "context.json"), "--track");
      tracker.emplace(request_.track, folder_, experiment_.name, interrupts_);
    }
    run_rounds();
    if (!tracker) return;
    progress_.stage("writing for " + request_.track);
    if (const std::string problem = tracker->problem(); !problem.empty())
      progress_.note("--track " + request_.track + " ended before the runs: " + problem, Colour::yellow);
  }

  void run_rounds() {
    const auto first = runs_.schedule.round(0, runs_.plans);
    TimeLimit limit(experiment_, first.size(), progress_,
                    request_.began.value_or(std::chrono::steady_clock::now()));
    limit.round_took(run_round(0, first, limit.of_first_round()));
    check_gate(/*last=*/!runs_.schedule.open() && experiment_.rounds == 1);
    if (runs_.schedule.open())
      repeat_until(*experiment_.until, limit);
    else
      for (int64_t round = 1; round < experiment_.rounds; ++round) {
        peaks_.look(round);
        run_round(round, runs_.schedule.round(round, runs_.plans));
      }
    check_gate(/*last=*/true);
    if (!limit.is_tight() && !was_tight()) execution_.execute(runs_.schedule.drift(runs_.plans));
  }

  /// Whether a time limit shortened runs of an earlier start.
  bool was_tight() {
    return std::ranges::any_of(so_far().runs,
                               [](const StoredRun& run) { return run.result.cut == "time limit"; });
  }

  /// Runs rounds until every interval is narrow or the time is over. Stored rounds count, and an interrupted
  /// round is completed.
  void repeat_until(const Until& until, TimeLimit& limit) {
    int64_t round = 1;
    for (auto begun = begun_in(round); !begun.empty(); begun = begun_in(++round))
      run_round(round, runs_.schedule.begin_round(round, begun, runs_.plans), limit.of_begun_round());
    // A race whose runs are all stored is not continued: its decisions stand.
    if (until.race && came_to_end_ && execution_.started() == 0 && round >= static_cast<int64_t>(kMinRounds))
      return;
    while (interrupts_.signal() == 0) {
      peaks_.look(round);
      const auto chosen = limit.next(analyze(so_far()), round, [&](int64_t variant) {
        return execution_.can_be_cut(
            runs_.schedule.measured(runs_.variants.at(static_cast<size_t>(variant)), round));
      });
      if (chosen.empty()) break;
      limit.round_took(
          run_round(round, runs_.schedule.begin_round(round, chosen, runs_.plans), limit.of_next_round()));
      ++round;
    }
  }

  /// Runs a round, with a noise probe before the first and after each round, if anything is left to run.
  /// Returns the seconds of the round; none if all of it was stored.
  std::optional<double> run_round(int64_t round, const std::vector<Job>& jobs, Pacer pacer = {}) {
    const bool any = std::ranges::any_of(jobs, [&](const Job& job) { return !execution_.is_done(job); });
    if (any && !noise_.begun()) look_at_noise(round);
    const auto before = std::chrono::steady_clock::now();
    execution_.execute_round(jobs, round, std::move(pacer));
    if (any) look_at_noise(round + 1);
    return any ? std::optional(seconds_since(before)) : std::nullopt;
  }

  void look_at_noise(int64_t rounds) {
    if (noise_.off() || interrupts_.signal() != 0) return;
    progress_.stage("checking machine noise");
    noise_.look(rounds);
  }

  /// Variants with a started run in this round, now or earlier.
  std::vector<int64_t> begun_in(int64_t round) const {
    std::vector<int64_t> begun;
    for (const auto& variant : runs_.variants)
      if (variant.has_own_runs() &&
          fs::exists(execution_.run_folder(runs_.schedule.measured(variant, round).id) / "spec.json"))
        begun.push_back(variant.index);
    return begun;
  }

  void tell_done() {
    auto jobs = runs_.schedule.all(runs_.plans);
    if (runs_.schedule.open())
      for (int64_t round = 1; !begun_in(round).empty(); ++round)
        for (const int64_t variant : begun_in(round))
          jobs.push_back(runs_.schedule.measured(runs_.variants.at(static_cast<size_t>(variant)), round));
    const auto done = std::ranges::count_if(jobs, [&](const Job& job) { return execution_.is_done(job); });
    progress_.note(std::to_string(done) + " of " + std::to_string(jobs.size()) +
                   " runs are already complete");
  }

  /// Makes the gate's additional runs, row by row. Their results decide whether a row is a reference for
  /// later rows. `last`: no later round shows whether a reference repeats its bits.
  void check_gate(bool last) {
    const Stored& stored = so_far();
    VariantRuns runs(stored.variants, stored.runs);
    std::deque<StoredRun> made;  // a deque, because CheckedRows keeps references to its elements
    CheckedRows rows(stored);
    for (const Variant& variant : stored.variants)
      while (interrupts_.signal() == 0) {
        const auto jobs = missing_for(rows.look(variant, runs), rows.usable(), last);
        if (jobs.empty()) break;
        for (StoredRun& run : execution_.execute(jobs)) runs.add(made.emplace_back(std::move(run)));
      }
  }

  std::vector<Job> missing_for(const Row& row, const Plans& usable, bool last) {
    const bool may_be_checked = row.ok() || row.status == Status::broken;
    if (!may_be_checked || !usable.at(static_cast<size_t>(row.variant))) return {};
    const Variant& variant = runs_.variants.at(static_cast<size_t>(row.variant));
    auto jobs = runs_.schedule.gate(usable, variant);
    if (last && row.verdict.undecided)
      std::ranges::move(runs_.schedule.repeat(usable, variant), std::back_inserter(jobs));
    std::erase_if(jobs, [&](const Job& job) { return execution_.is_executed(job); });
    return jobs;
  }

  /// The present content of the report's folder. Only new results are read.
  const Stored& so_far() {
    if (!stored_) {
      stored_ = load_report(folder_);
    } else {
      load_new_runs(*stored_);
      stored_->context = read_json(folder_ / "context.json");
    }
    return *stored_;
  }

  const Experiment& experiment_;
  const RunRequest& request_;
  Progress& progress_;
  Interrupts interrupts_;
  Runs runs_;
  const fs::path folder_;
  const FolderLock lock_;
  Execution execution_;
  const bool came_to_end_;  ///< at the start of this controller
  NoiseLog noise_;
  PeakLog peaks_;
  std::optional<Stored> stored_;  ///< none before the first use
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
