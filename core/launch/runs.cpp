#include "launch/runs.h"

#include "launch/ranks/followers.h"
#include "launch/run/live_run.h"
#include "launch/run/result.h"
#include "spec/state_files.h"

namespace optrush {
namespace fs = std::filesystem;

fs::path metrics_file(const fs::path& run_folder, const Job& job) {
  const bool several = job.spec.train.world_size > 1 && !job.external;
  return (several ? rank_folder(run_folder, 0) : run_folder) / "metrics.jsonl";
}

void begin_anew(const fs::path& run_folder) {
  forget_records(state_folder(run_folder));
  fs::remove(run_folder / kRankEnds);
}

Runs::Runs(Ledger& ledger, const RunRequest& request, Interrupts& interrupts, Progress& progress)
    : ledger_(ledger),
      request_(request),
      interrupts_(interrupts),
      progress_(progress),
      starter_(request.worker, request.followers, ledger.folder() / "starts", interrupts) {}

std::unique_ptr<LiveRun> Runs::start(const Job& job, const std::string& how, const Environment& added) {
  ledger_.start(job);
  std::map<Work, int64_t> later;
  for (const auto& [id, work] : ledger_.later()) ++later[work];
  const size_t begun = ledger_.ended_runs() + ledger_.runs_under_way();
  const Schedule& schedule = ledger_.schedule();
  const fs::path folder = ledger_.run_folder(job.id);
  progress_.begin(job,
                  {begun, begun + ledger_.later().size(),
                   schedule.describe(job.spec) + (how.empty() ? "" : " " + how), schedule.open()},
                  metrics_file(folder, job), std::move(later));
  if (request_.followers != nullptr) {
    request_.followers->listen(interrupts_);
    for (const auto& note : request_.followers->take_notes()) progress_.note(note, Colour::red);
  }
  // If the ranks were asked to stop, the run is interrupted; missing ranks would count as a failure.
  return interrupts_.signal() != 0 ? nullptr : starter_.start(job, folder, added);
}

void Runs::tick() {
  if (request_.followers != nullptr) request_.followers->listen(interrupts_);
  if (interrupts_.signal() == 0) return progress_.tick();
  progress_.stage("stopping; runs with save keep their state first (interrupt again to stop at once)");
}

void Runs::ended(const Job& job, const RunResult& result) {
  ledger_.finish(job, result);
  progress_.end(job, result);
  tell_notes();
}

void Runs::abandoned(const Job& job) {
  ledger_.abandon(job);
  progress_.abandon(job);
}

void Runs::tell_notes() {
  for (const std::string& note : ledger_.take_notes()) progress_.note(note, Colour::yellow);
}
}  // namespace optrush
