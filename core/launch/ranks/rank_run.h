#pragma once
#include <filesystem>
#include <memory>
#include <optional>

#include "launch/fork_server.h"
#include "launch/ranks/followers.h"
#include "launch/ranks/ranks.h"
#include "launch/run/live_run.h"

namespace optrush {
/// Time limits for the ranks of a run. After rank 0 has succeeded, the others may take the timeout of a
/// collective.
RankLimits limits_of(const Job&);

/// The reason why a run of several ranks can't start.
struct Obstacle {
  BadEnd end;
  std::optional<Cause> cause = {};  ///< `missing` if ranks are missing that may exist at another time
};

/// Starts runs in which several processes train one model.
class RankRun {
 public:
  /// `gpus`: number of GPUs of this machine. `followers`: the other processes of a launcher's job; null: this
  /// process starts all ranks.
  RankRun(ForkServer& workers, int64_t gpus, Followers* followers);

  /// The reason why a spec can't run here; none if it can.
  std::optional<Obstacle> obstacle(const RunSpec&) const;
  /// Starts the ranks of a job. `folder`: the run's folder with its spec.json. `added`: environment variables
  /// of the ranks that start here.
  std::unique_ptr<LiveRun> start(const Job&, const std::filesystem::path& folder, Interrupts&,
                                 const Environment& added) const;

 private:
  ForkServer& workers_;
  int64_t gpus_;
  Followers* followers_;
};
}  // namespace optrush
