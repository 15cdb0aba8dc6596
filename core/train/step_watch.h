#pragma once
#include <optional>
#include <vector>

#include "train/moved_elements.h"
#include "train/session.h"

namespace optrush {
/// Records the bytes of tensors after each timed step and finds steady growth. Such a leak is too small to
/// change a peak, but ends a long run.
class MemoryGrowth {
 public:
  void after_step(int64_t bytes) { bytes_.push_back(bytes); }
  /// Average growth per step in bytes; none if memory does not keep growing. With eight steps or more, every
  /// quarter must be above the one before; with fewer, every step must add the same amount.
  std::optional<double> per_step() const;

 private:
  std::vector<int64_t> bytes_;
};

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
