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
    : worker_(worker),
      followers_(followers),
      starts_(fs::absolute(worker), starts),
      needs_(interrupts),
      interrupts_(interrupts) {}

void RunStarter::machine_has(int64_t gpus) { ranks_.emplace(worker_, gpus, followers_); }

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
  std::vector<std::string> arguments = {worker_, "run", "--spec", folder / "spec.json", "--out", folder};
  if (job.from_step) arguments.insert(arguments.end(), {"--continue", std::to_string(*job.from_step)});
  return program(job, folder, {arguments, worker_environment(job.spec, cores), folder / "log.txt"}, added);
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
  return program(job, folder, external_command(*job.external, job.spec, folder, worker_, *start), added);
}

std::unique_ptr<LiveRun> RunStarter::program(const Job& job, const fs::path& folder, Command command,
                                             const Environment& added) {
  command.environment.insert(command.environment.end(), added.begin(), added.end());
  return std::make_unique<ProcessRun>(command, job, folder, interrupts_);
}
}  // namespace optrush
