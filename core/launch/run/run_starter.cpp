#include "launch/run/run_starter.h"

#include "launch/run/external_run.h"
#include "launch/run/result.h"
#include "machine/cores.h"
#include "optrush/error.h"

namespace optrush {
namespace fs = std::filesystem;

namespace {
std::unique_ptr<LiveRun> unstarted(const Job& job, const fs::path& folder, const BadEnd& end,
                                   std::optional<Cause> cause = {}) {
  return std::make_unique<UnstartedRun>(store_unstarted(folder, job, end, cause));
}
}  // namespace

RunStarter::RunStarter(const fs::path& worker, Followers* followers, const fs::path& starts,
                       Interrupts& interrupts)
    : workers_(worker, ForkServer::Use::runs),
      followers_(followers),
      starts_(fs::absolute(worker), starts),
      needs_(interrupts),
      interrupts_(interrupts) {}

void RunStarter::machine_has(int64_t gpus) { ranks_.emplace(workers_, gpus, followers_); }

std::unique_ptr<LiveRun> RunStarter::start(const Job& job, const fs::path& folder, const Environment& added) {
  try {
    if (job.external) return external(job, folder, added);
    if (job.spec.train.world_size > 1) return ranks(job, folder, added);
    return worker(job, folder, added);
    // for example: the program is missing, its start can't be exported, or no more processes are allowed
  } catch (const Error& e) {
    return unstarted(job, folder, failed(e, e.message()));
  }
}

std::unique_ptr<LiveRun> RunStarter::worker(const Job& job, const fs::path& folder,
                                            const Environment& added) {
  // torchrun limits OpenMP to one thread per process, but the other processes are idle here.
  const int64_t cores = followers_ == nullptr ? 0 : usable_cores();
  Command command{{workers_.worker(), "run", "--spec", folder / "spec.json", "--out", folder},
                  worker_environment(job.spec, cores),
                  folder / "log.txt"};
  if (job.from_step)
    command.arguments.insert(command.arguments.end(), {"--continue", std::to_string(*job.from_step)});
  command.environment.insert(command.environment.end(), added.begin(), added.end());
  return std::make_unique<ProcessRun>(workers_.start(command, interrupts_), job, folder, interrupts_);
}

/// Starts ranks in this process or in the other processes of a launcher's job.
std::unique_ptr<LiveRun> RunStarter::ranks(const Job& job, const fs::path& folder, const Environment& added) {
  if (const auto obstacle = ranks_->obstacle(job.spec))
    return unstarted(job, folder, obstacle->end, obstacle->cause);
  return ranks_->start(job, folder, interrupts_, added);
}

std::unique_ptr<LiveRun> RunStarter::external(const Job& job, const fs::path& folder,
                                              const Environment& added) {
  if (const auto missing = needs_.missing(*job.external); !missing.empty())
    return unstarted(job, folder, {Status::skipped, reason_of(missing)});
  std::optional<fs::path> start = fs::path();
  if (Starts::wanted(*job.external)) start = starts_.of(job.spec, interrupts_);
  if (!start) return nullptr;
  Command command = external_command(*job.external, job.spec, folder, workers_.worker(), *start);
  command.environment.insert(command.environment.end(), added.begin(), added.end());
  return std::make_unique<ProcessRun>(std::make_unique<Process>(command), job, folder, interrupts_);
}
}  // namespace optrush
