#pragma once
#include <vector>

#include "measure/step_clock.h"
#include "optrush/step.h"
#include "train/session.h"

namespace optrush {
/// One step of a session: the primitives that schedules compose, each in its bucket of the clock.
class TrainStep final : public Step {
 public:
  TrainStep(Session& session, StepClock& clock, std::vector<Batch> batches);

  int64_t microbatches() const override { return static_cast<int64_t>(batches_.size()); }
  const Batch& batch(int64_t micro) const override { return batches_.at(static_cast<size_t>(micro)); }
  Tensor forward(int64_t chunk, int64_t micro, Tensor in) override;
  Tensor backward(int64_t chunk, int64_t micro, const Tensor& out, const Tensor& gradient,
                  bool last) override;
  void update() override;

  /// Mean loss of the global batch, on the device; undefined where this rank has no head.
  const Tensor& loss() const { return loss_; }
  /// L2 norm of the final gradient before clipping, loss scale taken off, on the device.
  const Tensor& gradient_norm() const { return gradient_norm_; }
  /// 1 where the update was skipped because a gradient overflowed; undefined where nothing can skip.
  const Tensor& skipped() const { return skipped_; }
  int64_t tokens() const { return tokens_; }

 private:
  Session& session_;
  StepClock& clock_;
  std::vector<Batch> batches_;
  Tensor loss_, gradient_norm_, loss_gradient_, skipped_;
  int64_t tokens_ = 0;
};

/// All forwards and backwards one after the other, then the update: gradient accumulation.
void plain_schedule(Step&);
}  // namespace optrush
