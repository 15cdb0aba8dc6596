#pragma once
#include <deque>

#include "flat_group.h"

namespace optrush::fsdp {
/// Tracks the groups that are gathered. At most `limit` gathers run at once.
class Gathers {
 public:
  explicit Gathers(int64_t limit) : limit_(static_cast<size_t>(limit)) {}

  /// The group is whole when this returns.
  void need(FlatGroup&);
  /// Starts a gather ahead of its use. False if `limit` gathers are running.
  bool ahead(FlatGroup&);
  void drop(FlatGroup&);
  size_t in_flight() const { return in_flight_.size(); }

 private:
  void wait_for(FlatGroup&);
  size_t limit_;
  std::deque<FlatGroup*> in_flight_;  ///< in order of their start
};
}  // namespace optrush::fsdp
