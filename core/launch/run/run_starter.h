#pragma once
#include <filesystem>
#include <memory>
#include <optional>

#include "launch/ranks/rank_run.h"
#include "launch/run/live_run.h"
#include "launch/schedule/needs.h"
#include "launch/schedule/schedule.h"
#include "launch/schedule/starts.h"

namespace optrush {
/// Starts a job by what trains it: a worker, several ranks, or another program.
class RunStarter {
 public:
  /// `followers`: the other processes of a launcher's job; null: there are none. What external programs start
  /// from is made in `starts`.
  RunStarter(const std::filesystem::path& worker, Followers* followers, const std::filesystem::path& starts,
             Interrupts&);

  /// How many GPUs this machine has: before the first start of several ranks.
  void machine_has(int64_t gpus);
  /// `folder` is the run's and has its spec.json. What can't be started is a run that has ended already. Null
  /// where a signal came first.
  std::unique_ptr<LiveRun> start(const Job&, const std::filesystem::path& folder, const Environment& added);

 private:
  std::unique_ptr<LiveRun> worker(const Job&, const std::filesystem::path& folder, const Environment& added);
  std::unique_ptr<LiveRun> ranks(const Job&, const std::filesystem::path& folder, const Environment& added);
  std::unique_ptr<LiveRun> external(const Job&, const std::filesystem::path& folder,
                                    const Environment& added);
  std::unique_ptr<LiveRun> program(const Job&, const std::filesystem::path& folder, Command,
                                   const Environment& added);

  std::filesystem::path worker_;
  Followers* followers_;
  Starts starts_;
  Needs needs_;
  Interrupts& interrupts_;
  std::optional<RankRun> ranks_;
};
}  // namespace optrush
