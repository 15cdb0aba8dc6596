#pragma once
#include "train/session.h"

namespace optrush {
/// What was sent in the timed steps, from one moment on.
class SentPerStep {
 public:
  void start(const Session& session) { before_ = session.traffic(); }
  /// "collectives" of a result: each collective of each group, per step, beside what theory says.
  Json collectives(const Session&, int64_t steps) const;

 private:
  TrafficTable before_;
};

/// Adds to rank 0's result what the ranks tell of themselves, "ranks", and the "mesh". Every rank calls it;
/// nothing happens where there is one.
void add_ranks(Json& result, Session&, const std::string& device);
}  // namespace optrush
