#pragma once
#include "train/memory_growth.h"
#include "train/moved_elements.h"
#include "train/session.h"

namespace optrush {
/// Looks at timed steps for what puts a result in doubt: memory that grows, updates that change nothing. Only
/// in a run that is made to be measured.
class StepWatch {
 public:
  explicit StepWatch(Session& session) : session_(session), moved_(session) {}

  /// Around step `i` of `timed` ones, from 0 on.
  void before(int64_t i, int64_t timed);
  void after(int64_t i, int64_t timed);
  /// After the last one.
  void warn() const;

 private:
  /// A few updates, spread over the timed steps.
  bool looks_at_update(int64_t i, int64_t timed) const;
  bool is_measured() const { return session_.spec().purpose == Purpose::measure; }

  Session& session_;
  MovedElements moved_;
  MemoryGrowth host_memory_, device_memory_;  ///< over the steps made here
};
}  // namespace optrush
