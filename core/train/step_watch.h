#pragma once
#include "train/memory_growth.h"
#include "train/moved_elements.h"
#include "train/session.h"

namespace optrush {
/// Watches timed steps for reasons to doubt a result: growing memory and updates without effect. Only active
/// in runs that measure.
class StepWatch {
 public:
  explicit StepWatch(Session& session) : session_(session), moved_(session) {}

  /// Called before and after step `i` of `timed` steps, counted from 0.
  void before(int64_t i, int64_t timed);
  void after(int64_t i, int64_t timed);
  /// Called after the last step.
  void warn() const;

 private:
  /// Whether the update of this step is watched: a few, spread over the timed steps.
  bool looks_at_update(int64_t i, int64_t timed) const;
  bool is_measured() const { return session_.spec().purpose == Purpose::measure; }

  Session& session_;
  MovedElements moved_;
  MemoryGrowth host_memory_, device_memory_;  ///< over the steps of this process
};
}  // namespace optrush
