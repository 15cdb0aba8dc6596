#include "launch/execution.h"

#include <algorithm>
#include <limits>
#include <random>

#include "base/files.h"
#include "base/log.h"
#include "base/temporary_folder.h"
#include "base/text.h"
#include "launch/folder.h"
#include "launch/run/live_run.h"
#include "launch/run/restart.h"
#include "measure/cpu_info.h"
#include "spec/run_identity.h"
#include "spec/state_files.h"

namespace optrush {
namespace fs = std::filesystem;

namespace {
/// The file that shows the progress of a run.
fs::path metrics_file(const fs::path& run_folder, const Job& job) {
  const bool several = job.spec.train.world_size > 1 && !job.external;
  return (several ? rank_folder(run_folder, 0) : run_folder) / "metrics.jsonl";
}

/// Removes states and rank ends of an earlier start before a run begins.
void begin_anew(const fs::path& run_folder) {
  forget_records(state_folder(run_folder));
  fs::remove(run_folder / kRankEnds);
}

/// A unique name for a group of interleaved runs in this report.
std::string group_id(int64_t round) {
  static constexpr const char* kDigits = "0123456789abcdef";
  std::random_device random;
  std::string id = "r" + std::to_string(round + 1) + "-";
  for (int i = 0; i < 12; ++i) id += kDigits[random() % 16];
  return id;
}
}  // namespace

Runs::Runs(const Expanded& expanded, const std::vector<std::string>& only)
    : variants(expanded.variants),
      schedule(variants, rounds_of(expanded.experiment), only, expanded.experiment.trace,
               expanded.experiment.seeds),
      plans(variants.size()) {}

Execution::Execution(const Experiment& experiment, const RunRequest& request, Runs& runs,
                     const fs::path& folder, Interrupts& interrupts, Progress& progress)
    : experiment_(experiment),
      request_(request),
      runs_(runs),
      folder_(folder),
      interrupts_(interrupts),
      progress_(progress),
      journal_(folder),
      stored_(folder / "runs", journal_),
      starter_(request.worker, request.followers, folder / "starts", interrupts),
      race_(experiment) {}

bool Execution::is_executed(const Job& job) const {
  const auto executed = executed_.find(job.id);
  if (executed == executed_.end()) return false;
  // The gate selects its runs by the results of the others, so they may change. Measured runs do not.
  return job.spec.purpose == Purpose::measure || executed->second == identity_of(job);
}

bool Execution::is_done(const Job& job) {
  if (!request_.resume) return false;
  const RunResult* result = stored_.if_done(job);
  return result != nullptr && counts(job, *result);
}

/// Whether a stored result is final.
bool Execution::counts(const Job& job, const RunResult& result) const {
  if (result.ok()) return true;
  // The run did not start, or something outside ended it: it continues if possible.
  if (result.cause == Cause::missing ||
      (result.cause == Cause::lost && saved_record(state_folder(run_folder(job.id)), 0)))
    return false;
  return !request_.retry;
}

void Execution::cannot_run(const Variant& variant, const BadEnd& end) {
  if (end.status != Status::skipped) all_ok_ = false;
  const Job first = runs_.schedule.measured(variant, 0);
  const RunResult* before = request_.resume ? stored_.if_done(first) : nullptr;
  if (before != nullptr && before->ok()) return forget_plans(variant);  // other rounds are still missing
  store_unstarted(variant, 0, end);
  drop(variant, "its plan failed");
}

/// Whether the run is trained for its result.
bool Execution::is_wanted_whole(const RunSpec& spec) const {
  return spec.save.every > 0 || spec.train.overfit > 0 || experiment_.target_loss > 0;
}

bool Execution::can_be_cut(const Job& job) const {
  return knows_interleaving(job, request_.followers != nullptr) && !is_wanted_whole(job.spec);
}

void Execution::execute_round(std::vector<Job> jobs, int64_t round, Pacer pacer) {
  const bool whole = std::ranges::any_of(jobs, [&](const Job& job) { return is_wanted_whole(job.spec); });
  pacer_ = whole ? Pacer() : std::move(pacer);
  // With an open number of rounds, these are known from now on.
  if (later_)
    for (const auto& job : jobs)
      if (!is_executed(job)) later_->add(job);
  steps_of_round_ = pacer_ ? steps_of_stored(jobs) : std::nullopt;
  std::vector<Job> fit = jobs;
  std::erase_if(fit, [&](const Job& job) { return alone_.contains(job.spec.variant); });
  fit = chosen_for_interleaving(fit, runs_.plans, measured_memory_,
                                static_cast<double>(read_cpu().available_bytes), experiment_.interleave,
                                request_.followers != nullptr);
  starter_.begin_round();
  race_.begin_round();
  if (fit.size() > 1) execute_interleaved(fit, round);
  std::erase_if(jobs, [&](const Job& job) { return is_executed(job); });
  for (const auto& job : jobs) {
    if (interrupts_.signal() != 0) break;
    next_ = prepared_beside(job, jobs);
    const bool races = race_.on() && knows_interleaving(job, request_.followers != nullptr);
    if (races || ((pacer_ || next_ != nullptr) && can_be_cut(job)))
      execute_paced(job);
    else
      execute(job);
  }
  next_ = nullptr;
}

/// The run after this one, if a worker may open the GPU for it while this one sets up: both are of this
/// machine, and the GPU has memory for the forecast of this one and another context.
const Job* Execution::prepared_beside(const Job& job, const std::vector<Job>& jobs) const {
  static constexpr double kContext = 2e9;
  const auto after = &job + 1 - jobs.data();
  const auto& plan = runs_.plans.at(static_cast<size_t>(job.spec.variant));
  const auto memory = plan ? plan->memory : std::nullopt;
  if (after >= std::ssize(jobs) || !can_be_cut(job) || job.external || !memory || !memory->reserved ||
      !memory->available || *memory->reserved + kContext > *memory->available)
    return nullptr;
  const Job& next = jobs.at(static_cast<size_t>(after));
  return next.external || next.spec.train.world_size > 1 || is_executed(next) ? nullptr : &next;
}

/// The number of steps of the stored runs of an interrupted round; the others make the same number.
std::optional<int64_t> Execution::steps_of_stored(const std::vector<Job>& jobs) {
  std::optional<int64_t> steps;
  for (const auto& job : jobs) {
    if (!request_.resume || !can_be_cut(job)) continue;
    const RunResult* result = stored_.if_done(job);
    if (result == nullptr || !result->ok()) continue;
    const int64_t made = std::ssize(result->steps) - job.spec.train.warmup;
    if (made > 0) steps = std::max(steps.value_or(0), made);
  }
  return steps;
}

/// Runs the job as the only one of an interleaved group, so that its end can be controlled.
void Execution::execute_paced(const Job& job) {
  if (const auto result = stored_result(job)) return take(job, *result);
  const TemporaryFolder sockets;
  InterleavedRound({job}, "", sockets.path(), *this, interrupts_).conduct();
}

int64_t Execution::steps_of_round(const std::map<int64_t, RunCost>& costs) {
  starter_.wait_until_prepared();
  if (!pacer_) return std::numeric_limits<int64_t>::max();
  if (!steps_of_round_) steps_of_round_ = pacer_(costs);
  return *steps_of_round_;
}

bool Execution::has_enough(const Job& job) {
  return race_.is_over(job, metrics_file(run_folder(job.id), job));
}

/// Runs that are trained for their result, or in too few rounds for a claim, must be complete.
bool Execution::counts_when_cut() const {
  const auto wanted = [&](const Variant& variant) { return is_wanted_whole(variant.spec); };
  return (experiment_.until || experiment_.rounds >= static_cast<int64_t>(kMinRounds)) &&
         std::ranges::none_of(runs_.variants, wanted);
}

void Execution::execute_interleaved(std::vector<Job> jobs, int64_t round) {
  std::vector<std::pair<Job, RunResult>> done;
  for (const auto& job : jobs)
    if (auto result = stored_result(job)) done.emplace_back(job, std::move(*result));
  // Steps are compared within one group, so a group with a missing run is repeated. Failures stay.
  const bool whole = done.size() == jobs.size();
  int64_t remade = 0;
  for (const auto& [job, result] : done) {
    if (!whole && result.ok()) {
      set_aside(run_folder(job.id));
      ++remade;
      continue;
    }
    take(job, result);
    std::erase_if(jobs, [&, &ended = job](const Job& other) { return other.id == ended.id; });
  }
  if (remade > 0)
    progress_.note(
        std::to_string(remade) + " completed runs of round " + std::to_string(round + 1) +
            " are rerun, because the runs of a round must be interleaved; their old results are in replaced/",
        Colour::yellow);
  if (jobs.size() < 2) return;
  // Stores all specs before the first start, so that an interrupted round is complete.
  for (const auto& job : jobs) {
    clear_run(run_folder(job.id));
    store_job(run_folder(job.id), job);
  }
  std::vector<Job> started;
  for (const size_t i : start_order(jobs.size(), round)) started.push_back(jobs[i]);
  const TemporaryFolder sockets;
  interleaved_ = true;
  const auto again = InterleavedRound(started, group_id(round), sockets.path(), *this, interrupts_).conduct();
  interleaved_ = false;
  for (const auto& job : again) {
    progress_.note(job.spec.rung + " ran out of memory beside the others; it is rerun alone", Colour::yellow);
    alone_.insert(job.spec.variant);
  }
}

std::unique_ptr<LiveRun> Execution::start(const Job& job, const fs::path& socket) {
  begin_anew(run_folder(job.id));
  auto run = start(job, interleaved_ ? "interleaved" : "", {{"OPTRUSH_TURNS", socket.string()}});
  if (run && next_ != nullptr) starter_.prepare(*next_, run_folder(next_->id));
  return run;
}
void Execution::has_turn(const Job& job) { progress_.go_on(job); }
void Execution::tick() {
  if (request_.followers != nullptr) request_.followers->listen(interrupts_);
  if (interrupts_.signal() == 0) return progress_.tick();
  progress_.stage("stopping; runs with save keep their state first (interrupt again to stop at once)");
}
void Execution::ended(const Job& job, const RunResult& result) {
  store_result(run_folder(job.id), job, result);
  finished(job, result);
  take(job, result);
}
void Execution::abandoned(const Job& job) {
  fs::remove_all(run_folder(job.id) / "result.json");
  under_way_.erase(job.id);
  if (later_) later_->add(job);
  progress_.abandon(job);
}

std::vector<StoredRun> Execution::execute(const std::vector<Job>& jobs) {
  std::vector<StoredRun> runs;
  for (const auto& job : jobs) {
    interrupts_.take();
    if (interrupts_.signal() != 0) break;
    if (auto result = execute(job)) runs.push_back({job.id, job.spec, std::move(*result), {}});
  }
  return runs;
}

std::optional<RunResult> Execution::execute(const Job& job) {
  auto result = stored_result(job);
  if (!result) result = run(job);
  if (result) take(job, *result);
  return result;
}

/// The stored result of a run that need not be repeated.
std::optional<RunResult> Execution::stored_result(const Job& job) {
  if (!request_.resume) return std::nullopt;
  std::string changed;
  const RunResult* result = stored_.if_done(job, &changed);
  if (result != nullptr && !counts(job, *result)) {
    changed = "it ended as '" + std::string(to_string(result->status)) + "'";
    result = nullptr;
  }
  if (!changed.empty()) progress_.note(job.id + " is rerun: " + changed, Colour::yellow);
  return result == nullptr ? std::nullopt : std::optional(*result);
}

/// Draws the consequences from the end of a run.
void Execution::take(const Job& job, const RunResult& result) {
  executed_[job.id] = identity_of(job);
  under_way_.erase(job.id);
  if (later_) later_->remove(job);
  note_peak(job, result, measured_memory_);
  race_.ended(job, result);
  if (result.ok()) return;
  if (result.status != Status::skipped) all_ok_ = false;
  if (job.spec.purpose != Purpose::measure || job.spec.round > 0) return;
  if (runs_.schedule.open() || experiment_.rounds > 1)
    progress_.note(job.spec.rung + " is left out of the remaining rounds", Colour::yellow);
  drop(runs_.variants.at(static_cast<size_t>(job.spec.variant)),
       "round 1 ended as '" + std::string(to_string(result.status)) + "'");
}

void Execution::finished(const Job& job, const RunResult& result) {
  journal_.finished(job.id, identity_of(job), result, sha256_file(run_folder(job.id) / "result.json"));
  progress_.end(job, result);
}

namespace {
/// The plugins in a saved record.
std::vector<UsedPlugin> plugins_of(const Json& about) {
  return record::taken<std::vector<UsedPlugin>>(about.value("plugins", Json::array()), "plugins");
}
}  // namespace

/// The reason why an interrupted run can't continue from its saved state; "" if it can.
std::string Execution::change_since_state(const Json& record, const Job& job) {
  const Json& about = record.at("about");
  if (about.at("spec") != spec_sha256(job.spec)) {
    const auto& plan = runs_.plans.at(static_cast<size_t>(job.spec.variant));
    if (std::string changed = change_of_spec(record, job, plan, run_folder(job.id)); !changed.empty())
      return changed;
  }
  return about.at("inputs") != sum_of_inputs(job.spec) ? "a file that it reads"
         : !stored_.same_plugins(plugins_of(about))    ? "a plugin file"
                                                       : "";
}

bool Execution::keeps_state(const Variant& variant) {
  const Job job = runs_.schedule.measured(variant, 0);
  const auto record = saved_record(state_folder(run_folder(job.id)), 0);
  if (!record || job.external || record->at("result").is_object()) return false;  // no state, or complete
  // Without a plan nothing runs, and a later start may have one.
  return !runs_.plans.at(static_cast<size_t>(variant.index)) || change_since_state(*record, job).empty();
}

/// The step with which an interrupted run continues from its saved state. Runs of an interleaved group start
/// again, because steps are compared only with simultaneous ones.
std::optional<int64_t> Execution::step_to_go_on_with(const Job& job) {
  if (job.external) return std::nullopt;
  const auto record = saved_record(state_folder(run_folder(job.id)), 0);
  if (!record) return std::nullopt;
  const Json& about = record->at("about");
  const auto step = record->at("record").at("saved").back().at("step").get<int64_t>();
  const std::string changed = change_since_state(*record, job);
  const std::string state = " from its state before step " + std::to_string(step);
  if (!changed.empty()) {
    progress_.note(job.id + " does not continue" + state + ", because this has changed: " + changed,
                   Colour::yellow);
    return std::nullopt;
  }
  const int64_t ranks = about.value("ranks", job.spec.train.world_size), now = job.spec.train.world_size;
  progress_.note(
      job.id + " continues" + state +
      (now == ranks ? "" : " on " + counted(now, "rank") + " instead of " + std::to_string(ranks)));
  return step;
}

/// Runs a job alone, and again after faults. None after a signal.
std::optional<RunResult> Execution::run(Job job) {
  if (request_.resume) job.from_step = step_to_go_on_with(job);
  if (!job.from_step) begin_anew(run_folder(job.id));
  auto result = attempt(job);
  for (int64_t restarts = 0; result && starts_again(job, *result, restarts); ++restarts) {
    job.from_step = step_to_go_on_with(job);
    result = attempt(job);
  }
  if (!result) {
    abandoned(job);
    return result;
  }
  note_restarts(job, *result);
  finished(job, *result);
  return result;
}

std::optional<RunResult> Execution::attempt(Job& job) {
  const auto live = start(job, "", {});
  return live ? finish(*live, job.spec.timeout_s, interrupts_, [this] { tick(); }) : std::nullopt;
}

namespace {
/// Number of steps in the saved state of a run.
int64_t steps_in_state(const fs::path& run_folder) {
  const auto record = saved_record(state_folder(run_folder), 0);
  return record ? std::ssize(record->at("record").at("steps")) : 0;
}
}  // namespace

/// Whether a run with this end starts again; if so, this is journaled.
bool Execution::starts_again(const Job& job, const RunResult& result, int64_t restarts) {
  if (restarts >= experiment_.max_restarts || !saves_state(job) || !is_fault(result)) return false;
  const std::string why = first_line(result.reason);
  if (request_.followers != nullptr) {
    request_.followers->listen(interrupts_);
    if (interrupts_.signal() != 0) return false;
    if (const auto missing = request_.followers->missing(job.spec.train.world_size); !missing.empty()) {
      progress_.note(job.id + " cannot start again after a fault: " + missing, Colour::yellow);
      return false;
    }
  }
  const fs::path folder = run_folder(job.id);
  const int64_t kept = steps_in_state(folder);
  const int64_t made = std::max(kept, MetricsTail(metrics_file(folder, job)).update().steps);
  journal_.restarted(job.id, {result.status, result.reason, result.rank, made, kept});
  progress_.abandon(job);
  progress_.note(job.id + " starts again (" + std::to_string(restarts + 1) + " of at most " +
                     std::to_string(experiment_.max_restarts) + "): " + why + "; " +
                     counted(made - kept, "step") + " will be made again",
                 Colour::yellow);
  return true;
}

/// Notes all restarts of the run, including those under earlier controllers.
void Execution::note_restarts(const Job& job, RunResult& result) const {
  const auto& restarts = journal_.of(job.id).restarts;
  if (restarts.empty()) return;
  result.notes.push_back(note_of(restarts));
  store_result(run_folder(job.id), job, result);
}

/// Null after a signal. `how` is for the progress line.
std::unique_ptr<LiveRun> Execution::start(const Job& job, const std::string& how, const Environment& added) {
  const fs::path folder = run_folder(job.id);
  clear_attempt(folder);
  store_job(folder, job);
  journal_.started(job.id, identity_of(job), sha256_file(folder / "spec.json"), sum_of_inputs(job.spec),
                   job.from_step);
  const Progress::Position position = position_of(job, how);
  progress_.begin(job, position, metrics_file(folder, job), later_runs().counts());
  tell_of_followers();
  // If the ranks were asked to stop, the run is interrupted; missing ranks would count as a failure.
  if (interrupts_.signal() != 0) return nullptr;
  ++started_;
  return starter_.start(job, folder, added);
}

/// The known runs that are neither finished nor under way.
LaterRuns& Execution::later_runs() {
  if (later_) return *later_;
  later_.emplace();
  for (const Job& job : runs_.schedule.all(runs_.plans))
    if (!under_way_.contains(job.id) && !is_executed(job)) later_->add(job);
  return *later_;
}

Progress::Position Execution::position_of(const Job& job, const std::string& how) {
  LaterRuns& later = later_runs();
  under_way_.insert(job.id);
  later.remove(job);
  return {executed_.size() + progress_.begun() + 1, executed_.size() + under_way_.size() + later.size(),
          runs_.schedule.describe(job.spec) + (how.empty() ? "" : " " + how), runs_.schedule.open()};
}

void Execution::tell_of_followers() {
  if (request_.followers == nullptr) return;
  request_.followers->listen(interrupts_);
  for (const auto& note : request_.followers->take_notes()) progress_.note(note, Colour::red);
}

/// Removes the remaining runs of this variant and of variants that share its runs.
void Execution::forget_plans(const Variant& variant) {
  later_.reset();
  for (const auto& other : runs_.variants)
    if (other.runs_of() == variant.index) runs_.plans.at(static_cast<size_t>(other.index)).reset();
}

/// Removes the remaining runs of this variant. Missing rounds get the reason as result.
void Execution::drop(const Variant& variant, const std::string& why) {
  forget_plans(variant);
  for (int64_t round = 1; round < rounds_of(experiment_).value_or(1); ++round)
    store_unstarted(variant, round, {Status::skipped, "not run: " + why});
  log::debug("dropped " + variant.name + ": " + why);
}

void Execution::store_unstarted(const Variant& variant, int64_t round, const BadEnd& end) {
  const Job job = runs_.schedule.measured(variant, round);
  if (is_done(job)) return;  // earlier measurements are kept
  optrush::store_unstarted(run_folder(job.id), job, end);
  journal_.skipped(job.id, end.reason);
}
}  // namespace optrush
