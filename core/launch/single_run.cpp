#include "launch/single_run.h"

#include <algorithm>

#include "base/text.h"
#include "launch/ranks/followers.h"
#include "launch/run/live_run.h"
#include "launch/run/metrics_tail.h"
#include "launch/run/restart.h"
#include "spec/state_files.h"

namespace optrush {
namespace fs = std::filesystem;

namespace {
/// Number of steps in the saved state of a run.
int64_t steps_in_state(const fs::path& run_folder) {
  const auto record = saved_record(state_folder(run_folder), 0);
  return record ? std::ssize(record->at("record").at("steps")) : 0;
}

/// The step with which an interrupted run continues from its saved state. Runs of an interleaved group start
/// again, because steps are compared only with simultaneous ones.
std::optional<int64_t> step_to_go_on_with(Runs& runs, const Job& job) {
  if (job.external) return std::nullopt;
  const auto record = saved_record(state_folder(runs.ledger().run_folder(job.id)), 0);
  if (!record) return std::nullopt;
  const auto step = record->at("record").at("saved").back().at("step").get<int64_t>();
  const std::string changed = runs.ledger().change_since_state(*record, job);
  const std::string state = " from its state before step " + std::to_string(step);
  if (!changed.empty()) {
    runs.progress().note(job.id + " does not continue" + state + ", because this has changed: " + changed,
                         Colour::yellow);
    return std::nullopt;
  }
  const int64_t now = job.spec.train.world_size, ranks = record->at("about").value("ranks", now);
  runs.progress().note(
      job.id + " continues" + state +
      (now == ranks ? "" : " on " + counted(now, "rank") + " instead of " + std::to_string(ranks)));
  return step;
}

std::optional<RunResult> attempt(Runs& runs, const Job& job) {
  const auto live = runs.start(job, "", {});
  return live ? finish(*live, job.spec.timeout_s, runs.interrupts(), [&] { runs.tick(); }) : std::nullopt;
}

/// Whether a run with this end starts again; if so, this is journaled.
bool starts_again(Runs& runs, const Job& job, const RunResult& result, int64_t restarts) {
  const int64_t most = runs.ledger().experiment().max_restarts;
  if (restarts >= most || !saves_state(job) || !is_fault(result)) return false;
  if (Followers* const followers = runs.request().followers; followers != nullptr) {
    followers->listen(runs.interrupts());
    if (runs.interrupts().signal() != 0) return false;
    if (const auto missing = followers->missing(job.spec.train.world_size); !missing.empty()) {
      runs.progress().note(job.id + " cannot start again after a fault: " + missing, Colour::yellow);
      return false;
    }
  }
  const fs::path folder = runs.ledger().run_folder(job.id);
  const int64_t kept = steps_in_state(folder);
  const int64_t made = std::max(kept, MetricsTail(metrics_file(folder, job)).update().steps);
  runs.ledger().restart(job, {result.status, result.reason, result.rank, made, kept});
  runs.progress().abandon(job);
  runs.progress().note(job.id + " starts again (" + std::to_string(restarts + 1) + " of at most " +
                           std::to_string(most) + "): " + first_line(result.reason) + "; " +
                           counted(made - kept, "step") + " will be made again",
                       Colour::yellow);
  return true;
}
}  // namespace

std::optional<RunResult> run_alone(Runs& runs, Job job) {
  if (runs.request().resume) job.from_step = step_to_go_on_with(runs, job);
  if (!job.from_step) begin_anew(runs.ledger().run_folder(job.id));
  auto result = attempt(runs, job);
  for (int64_t restarts = 0; result && starts_again(runs, job, *result, restarts); ++restarts) {
    job.from_step = step_to_go_on_with(runs, job);
    result = attempt(runs, job);
  }
  if (result)
    runs.ended(job, *result);
  else
    runs.abandoned(job);
  return result;
}
}  // namespace optrush
