#pragma once
#include <cstdint>

#include "optrush/run.h"
#include "scaled.h"

namespace optrush::float8 {
/// The largest values of each quantized tensor in the last kSteps steps, for scales that are known before a
/// tensor is read ("delayed" scales, arXiv:2209.05433). They are equal on all ranks.
class PastScales {
 public:
  static constexpr int64_t kSteps = 16;

  /// Of so many tensors, on the device of the run.
  void make(int64_t tensors, Run&);
  bool any() const { return largest_.defined(); }
  /// In the first step of a run the largest values are not known, so the scales come from the tensors.
  Delayed of(int64_t tensor) const;

  void begin_step(const Run&);
  /// Adds this step's largest values, over all ranks. A value that is not finite counts as none, because it
  /// would be the largest for kSteps steps.
  void end_step(Run&);
  /// (1), bf16, NaN: see fused::RoundingOffer.
  const Tensor& unread() const { return unread_; }
  /// (tensors, kSteps), fp32: a part of the saved state.
  const Tensor& largest() const { return largest_; }

 private:
  Tensor largest_;  ///< (tensors, kSteps), of step s in column s % kSteps
  Tensor seen_;     ///< (tensors, kLargestParts), of this step
  Tensor unread_;
  bool known_ = false, begun_ = false;
};
}  // namespace optrush::float8
