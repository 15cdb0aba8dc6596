#pragma once
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launch/ranks/rank.h"

namespace optrush {
class ForkServer;
class LiveRun;
class RemoteRanks;

struct RankLimits {
  double timeout_s = 3600;      ///< limit for the whole run
  double linger_s = 60;         ///< for the other ranks, after rank 0 has succeeded
  double settle_s = 1;          ///< after a rank that failed because of another one, for the other to appear
  double outside_s = kOutside;  ///< after a rank that an outside cause ended, for a signal that explains it
  double own_s = kBadEnd;       ///< the same after a rank that failed on its own
  double grace_s = 5;           ///< between SIGTERM and SIGKILL
  double stop_grace_s = 5;      ///< the same if the run saves its state meanwhile
  /// After SIGKILL; a rank on another machine that does not report its end by then is lost.
  double gone_s = 4;
};

/// The end of a run of several ranks.
struct RanksEnd {
  enum class Kind : uint8_t {
    ok,           ///< every rank succeeded
    failed,       ///< `rank` failed first
    absent,       ///< `rank` did not reach a collective in which the others waited
    lingered,     ///< `rank` did not end although rank 0 did
    timed_out,    ///< the whole run; `rank` is the one with the least progress
    interrupted,  ///< a signal asked to stop
  };
  Kind kind = Kind::ok;
  size_t rank = 0;                      ///< the rank that explains the end
  std::string waiting = {};             ///< for `absent`: the message of a rank that waited for it
  std::vector<RankEnd> ends;            ///< by rank
  std::vector<size_t> order = {};       ///< ranks in order of their ends
  std::vector<size_t> ended_here = {};  ///< ranks that ended only after a request
};

/// Rank 0's result if all ranks succeeded, otherwise one that names the rank that explains the end.
RunResult conclude_ranks(const std::filesystem::path& run_folder, const RanksEnd&, const Job&,
                         const RankLimits&);

/// Watches the ranks of a run. If one fails, the others are ended: SIGTERM, a pause, SIGKILL. A rank that
/// failed on its own explains the run rather than ranks that failed because of it. After a rank that an
/// outside cause ended, it waits shortly, because a launcher that ends a job reaches ranks at different
/// times.
class RankWatch {
 public:
  /// The arguments must outlive it.
  RankWatch(std::vector<std::unique_ptr<RunningRank>>&, const RankLimits&, Interrupts&);

  /// Records new ends. Returns whether to wait for more.
  bool goes_on();
  /// Ends the remaining ranks and returns the end of the run. `why`: timed_out or interrupted, if the run
  /// would have continued.
  RanksEnd end(RanksEnd::Kind why = RanksEnd::Kind::ok);

 private:
  using Clock = std::chrono::steady_clock;
  bool poll();
  void note_end(size_t rank);
  std::vector<size_t> running() const;
  std::optional<size_t> first(RankEnd::Verdict) const;
  void end_others(const std::vector<size_t>& present, double grace_s);
  void wait_for_ends(double limit_s, bool patient);
  void settle(const std::vector<size_t>& present);
  void name(RanksEnd::Kind, size_t rank);
  size_t least_far(const std::vector<size_t>& present) const;

  std::vector<std::unique_ptr<RunningRank>>& ranks_;
  const RankLimits& limits_;
  Interrupts& interrupts_;
  std::vector<std::optional<RankEnd>> ends_;
  Clock::time_point last_end_ = Clock::now();
  std::optional<Clock::time_point> first_failure_, first_outside_, first_own_;
  RanksEnd outcome_;
};

/// After rank 0 has succeeded, the others may take the timeout of a collective.
RankLimits limits_of(const Job&);

/// The result of a run of several ranks that can't start here; none if it can. Its cause is `missing` if
/// ranks are missing that may exist at another time. `gpus`: number of GPUs of this machine; `remote_ranks`:
/// the other processes of a launcher's job; null: this process starts all ranks.
std::optional<RunResult> obstacle(const RunSpec&, int64_t gpus, RemoteRanks* remote_ranks);

/// Starts several processes that train one model. `folder`: the run's folder with its spec.json;
/// `remote_ranks`: as above; `added`: additional environment variables of ranks that start here.
std::unique_ptr<LiveRun> start_ranks(const Job&, const std::filesystem::path& folder, ForkServer& workers,
                                     RemoteRanks* remote_ranks, const Environment& added, Interrupts&);
}  // namespace optrush
