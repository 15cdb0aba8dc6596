#pragma once
#include <filesystem>
#include <memory>
#include <optional>

#include "launch/fork_server.h"
#include "launch/ranks/ranks.h"
#include "launch/ranks/remote_ranks.h"
#include "launch/run/live_run.h"

namespace optrush {
/// After rank 0 has succeeded, the others may take the timeout of a collective.
RankLimits limits_of(const Job&);

/// The result of a run of several ranks that can't start here; none if it can. Its cause is `missing` if
/// ranks are missing that may exist at another time. `gpus`: number of GPUs of this machine; `remote_ranks`:
/// the other processes of a launcher's job; null: this process starts all ranks.
std::optional<RunResult> obstacle(const RunSpec&, int64_t gpus, RemoteRanks* remote_ranks);

struct RankStart {
  ForkServer& workers;
  RemoteRanks* remote_ranks = nullptr;  ///< null: this process starts all of them
  Environment added;                    ///< additional environment variables of ranks that start here
};
/// Starts several processes that train one model. `folder`: the run's folder with its spec.json.
std::unique_ptr<LiveRun> start_ranks(const Job&, const std::filesystem::path& folder, RankStart, Interrupts&);
}  // namespace optrush
