#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "launch/ranks/rank.h"

namespace optrush {
struct RankLimits {
  double timeout_s = 3600;      ///< of the whole run
  double linger_s = 60;         ///< of the others, once rank 0 has come to a good end
  double settle_s = 1;          ///< after a rank that failed by another one, until that one shows itself
  double outside_s = kOutside;  ///< after a rank that something outside ended, until a signal explains it
  double own_s = kBadEnd;       ///< the same after one that failed by itself
  double grace_s = 5;           ///< between SIGTERM and SIGKILL
  double stop_grace_s = 5;      ///< the same where the run is to save its state meanwhile
  double gone_s = 4;            ///< after SIGKILL; a rank elsewhere that does not say its end then is lost
};

/// How a run of several ranks ended.
struct RanksEnd {
  enum class Kind : uint8_t {
    ok,           ///< every rank
    failed,       ///< `rank` failed first
    absent,       ///< `rank` did not arrive at a collective where the others waited
    lingered,     ///< `rank` did not end although rank 0 did
    timed_out,    ///< the whole run; `rank` is the one that came least far
    interrupted,  ///< a signal asked to stop
  };
  Kind kind = Kind::ok;
  size_t rank = 0;                      ///< that explains the run
  std::string waiting = {};             ///< absent: what a rank says that waited for it
  std::vector<RankEnd> ends;            ///< of all ranks
  std::vector<std::string> names;       ///< RunningRank::name() of all ranks
  std::vector<size_t> order = {};       ///< ranks, the one that ended first first
  std::vector<std::string> times = {};  ///< of these, when the end was seen
  std::vector<size_t> ended_here = {};  ///< ranks that had not ended before they were told to
};

/// Watches the ranks of a run. Where one fails, the others are ended: SIGTERM, some time, SIGKILL. A rank
/// that failed by itself explains a run before those that failed because it did. One that something outside
/// ended is waited with: a launcher that ends a whole job is heard at one rank before the other.
class RankWatch {
 public:
  /// All three outlive it.
  RankWatch(std::vector<std::unique_ptr<RunningRank>>&, const RankLimits&, Interrupts&);

  /// Takes the ends that have come. Whether there is more to wait for.
  bool goes_on();
  /// Ends those that have not ended, and tells how the run did. `why`: timed_out or interrupted, where it
  /// would have gone on.
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
  std::vector<size_t> order_;       ///< ranks that have ended, the first one first
  std::vector<std::string> times_;  ///< when these were seen to
  Clock::time_point last_end_ = Clock::now();
  std::optional<Clock::time_point> first_failure_, first_outside_, first_own_;
  RanksEnd outcome_;
};
}  // namespace optrush
