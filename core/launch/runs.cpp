#include "launch/runs.h"

#include <algorithm>

#include "analysis/time_to_loss.h"
#include "base/text.h"
#include "launch/ranks/remote_ranks.h"
#include "launch/run/result.h"
#include "spec/state_files.h"

namespace optrush {
namespace fs = std::filesystem;

namespace {
/// Whether the run ended by a fault that may not occur again: a process was lost or crashed, or a rank hung.
/// A failure that the run itself reports and the time limit are not faults.
bool is_fault(const RunResult& result) {
  return result.status == Status::crashed || result.cause == Cause::lost || result.cause == Cause::peer ||
         result.cause == Cause::timeout;
}
}  // namespace

void LossRace::begin_round() {
  first_s_ = HUGE_VAL;
  runs_.clear();
}

void LossRace::ended(const Job& job, const RunResult& result) {
  if (!on() || job.spec.purpose != Purpose::measure || !result.ok()) return;
  if (const auto time = time_to_loss(result, target_); time && time->seconds)
    first_s_ = std::min(first_s_, *time->seconds);
}

bool LossRace::is_over(const Job& job, const fs::path& metrics) {
  if (!on()) return false;
  const RunState& run = runs_.try_emplace(job.id, metrics, job.external.has_value()).first->second.update();
  // A run that validates is judged by its validations, as in the report.
  const bool validates = job.spec.validate.every > 0 || run.lowest_validation;
  const auto& reached = validates ? run.lowest_validation : run.lowest_mean;
  if (!reached || *reached > target_) return run.seconds > behind_ * first_s_;
  first_s_ = std::min(first_s_, run.seconds);
  return true;
}

Runs::Runs(Ledger& ledger, const RunRequest& request, Interrupts& interrupts, Progress& progress)
    : ledger_(ledger),
      request_(request),
      interrupts_(interrupts),
      progress_(progress),
      starter_(request.worker, request.remote_ranks, ledger.folder() / "starts", interrupts),
      race_(ledger.experiment()) {}

/// The file that shows the progress of a run.
fs::path Runs::metrics_file(const Job& job) const {
  const fs::path folder = ledger_.run_folder(job.id);
  const bool several = job.spec.train.world_size > 1 && !job.external;
  return (several ? rank_folder(folder, 0) : folder) / "metrics.jsonl";
}

void Runs::begin_race() {
  race_.begin_round();
  for (const Job& job : ledger_.round()->jobs)
    if (ledger_.done(job)) race_.ended(job, ledger_.result(job));
}

void Runs::forget(const Job& job) const {
  const fs::path folder = ledger_.run_folder(job.id);
  forget_records(state_folder(folder));
  fs::remove(folder / kRankEnds);
}

std::unique_ptr<LiveRun> Runs::start(const Job& job, const std::string& how, const Environment& added) {
  ledger_.start(job);
  std::map<Work, int64_t> later;
  for (const auto& [id, work] : ledger_.later()) ++later[work];
  const size_t begun = ledger_.started_runs();
  const Schedule& schedule = ledger_.schedule();
  progress_.begin(job,
                  {begun, begun + ledger_.later().size(),
                   schedule.describe(job.spec) + (how.empty() ? "" : " " + how), schedule.open()},
                  metrics_file(job), std::move(later));
  if (request_.remote_ranks != nullptr) {
    request_.remote_ranks->listen(interrupts_);
    for (const auto& note : request_.remote_ranks->take_notes()) progress_.note(note, Colour::red);
  }
  // If the ranks were asked to stop, the run is interrupted; missing ranks would count as a failure.
  return interrupts_.signal() != 0 ? nullptr : starter_.start(job, ledger_.run_folder(job.id), added);
}

void Runs::tick() {
  if (request_.remote_ranks != nullptr) request_.remote_ranks->listen(interrupts_);
  if (interrupts_.signal() == 0) return progress_.tick();
  progress_.stage("stopping; runs with save keep their state first (interrupt again to stop at once)");
}

void Runs::ended(const Job& job, const RunResult& result) {
  ledger_.finish(job, result);
  race_.ended(job, result);
  progress_.end(job, result);
  print_notes();
}

void Runs::abandoned(const Job& job) {
  ledger_.abandon(job);
  progress_.abandon(job);
}

void Runs::print_notes() {
  for (const std::string& note : ledger_.take_notes()) progress_.note(note, Colour::yellow);
}

std::optional<RunResult> Runs::run_alone(Job job) {
  if (request_.resume) job.from_step = step_to_resume_from(job);
  if (!job.from_step) forget(job);
  std::optional<RunResult> result;
  for (int64_t restarts = 0;; ++restarts) {
    const auto live = start(job, "", {});
    result = live ? finish(*live, job.spec.timeout_s, interrupts_, [this] { tick(); }) : std::nullopt;
    if (!result || !starts_again(job, *result, restarts)) break;
    job.from_step = step_to_resume_from(job);
  }
  if (result)
    ended(job, *result);
  else
    abandoned(job);
  return result;
}

/// The step with which an interrupted run continues from its saved state. Runs of an interleaved group start
/// again, because steps are compared only with simultaneous ones.
std::optional<int64_t> Runs::step_to_resume_from(const Job& job) {
  if (job.external) return std::nullopt;
  const auto record = saved_record(state_folder(ledger_.run_folder(job.id)), 0);
  if (!record) return std::nullopt;
  const auto step = record->at("record").at("saved").back().at("step").get<int64_t>();
  const std::string changed = ledger_.change_since_state(*record, job);
  const std::string state = " from its state before step " + std::to_string(step);
  if (!changed.empty()) {
    progress_.note(job.id + " does not continue" + state + ", because this has changed: " + changed,
                   Colour::yellow);
    return std::nullopt;
  }
  const int64_t now = job.spec.train.world_size, ranks = record->at("about").value("ranks", now);
  progress_.note(
      job.id + " continues" + state +
      (now == ranks ? "" : " on " + counted(now, "rank") + " instead of " + std::to_string(ranks)));
  return step;
}

/// Whether a run with this end starts again; if so, this is journaled.
bool Runs::starts_again(const Job& job, const RunResult& result, int64_t restarts) {
  const int64_t most = ledger_.experiment().max_restarts;
  if (restarts >= most || !saves_state(job) || !is_fault(result)) return false;
  if (RemoteRanks* const remote_ranks = request_.remote_ranks; remote_ranks != nullptr) {
    remote_ranks->listen(interrupts_);
    if (interrupts_.signal() != 0) return false;
    if (const auto missing = remote_ranks->missing(job.spec.train.world_size); !missing.empty()) {
      progress_.note(job.id + " cannot start again after a fault: " + missing, Colour::yellow);
      return false;
    }
  }
  const auto record = saved_record(state_folder(ledger_.run_folder(job.id)), 0);
  const int64_t kept = record ? std::ssize(record->at("record").at("steps")) : 0;
  const int64_t made = std::max(kept, MetricsTail(metrics_file(job)).update().steps);
  ledger_.restart(job, result, made, kept);
  progress_.abandon(job);
  progress_.note(job.id + " starts again (" + std::to_string(restarts + 1) + " of at most " +
                     std::to_string(most) + "): " + first_line(result.reason) + "; " +
                     counted(made - kept, "step") + " will be made again",
                 Colour::yellow);
  return true;
}
}  // namespace optrush
