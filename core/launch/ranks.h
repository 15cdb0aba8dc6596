#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "launch/rank.h"

namespace optrush {
struct RankLimits {
  double timeout_s = 3600;  ///< of the whole run
  double linger_s = 60;     ///< of the others, once rank 0 has come to a good end
  double settle_s = 1;      ///< after a rank that failed by another one, until that one shows itself
  double grace_s = 5;       ///< between SIGTERM and SIGKILL
  double gone_s = 4;        ///< after SIGKILL; a rank elsewhere that does not say its end then is lost
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
  size_t rank = 0;                 ///< that explains the run
  std::string waiting = {};        ///< absent: what a rank says that waited for it
  std::vector<RankEnd> ends;       ///< of all ranks
  std::vector<std::string> names;  ///< RunningRank::name() of all ranks
};

/// Watches ranks until all have ended. Where one fails, the others are ended: SIGTERM, some time, SIGKILL. A
/// rank that failed by itself explains a run before those that failed because it did. `tick` is called now
/// and then; ranks are looked at every `period`.
RanksEnd watch_ranks(std::vector<std::unique_ptr<RunningRank>>& ranks, const RankLimits&, Interrupts&,
                     const std::function<void()>& tick, std::chrono::milliseconds period);
}  // namespace optrush
