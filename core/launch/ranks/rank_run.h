#pragma once
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launch/ranks/followers.h"
#include "launch/ranks/ranks.h"
#include "launch/run/live_run.h"
#include "launch/run/result.h"
#include "launch/schedule/planner.h"

namespace optrush {
/// How long the ranks of a run may take. Once rank 0 has ended well, the others may wait for a collective as
/// long as collectives are waited for.
RankLimits limits_of(const Job&);

/// Why a run of several ranks can't be started.
struct Obstacle {
  BadEnd end;
  std::optional<Cause> cause = {};  ///< `missing` where ranks are that may be there another time
};

/// Makes the runs whose model several processes train together.
class RankRun {
 public:
  /// `gpus`: that this machine has. `followers`: the other processes of a launcher's job; null: this one
  /// starts all ranks itself.
  RankRun(std::filesystem::path worker, int64_t gpus, Followers* followers);

  /// Why a spec can't be run here; none where it can.
  std::optional<Obstacle> obstacle(const RunSpec&) const;
  /// Starts the ranks of a job in the folder of its run, which has its spec.json. `added` to the environment
  /// of those that are started here.
  std::unique_ptr<LiveRun> start(const Job&, const std::filesystem::path& folder, Interrupts&,
                                 const Environment& added) const;

 private:
  std::filesystem::path worker_;
  int64_t gpus_;
  Followers* followers_;
};
}  // namespace optrush
