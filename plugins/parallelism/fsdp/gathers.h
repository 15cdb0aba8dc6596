#pragma once
#include <deque>

#include "flat_group.h"

namespace optrush::fsdp {
/// Which groups are whole now. Of their gathers no more than `limit` are under way at once.
class Gathers {
 public:
  explicit Gathers(int64_t limit) : limit_(static_cast<size_t>(limit)) {}

  /// It is whole when this returns.
  void need(FlatGroup&);
  /// It is about to be needed. False where as many gathers are under way as may be.
  bool ahead(FlatGroup&);
  void drop(FlatGroup&);
  size_t in_flight() const { return in_flight_.size(); }

 private:
  void wait_for(FlatGroup&);
  size_t limit_;
  std::deque<FlatGroup*> in_flight_;  ///< in order of their start
};
}  // namespace optrush::fsdp
