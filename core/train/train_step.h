#pragma once
#include <map>
#include <utility>
#include <vector>

#include "measure/step_clock.h"
#include "optrush/step.h"
#include "train/session.h"

namespace optrush {
/// Sets token_count and sequence_count, totals over all ranks, in each micro-batch. No device is waited for.
void count_step(const Session&, std::span<Batch>);
/// The mean loss of the global batch from this rank's part; undefined on a rank that does not run the head.
Tensor global_loss(const Session&, const Tensor& part);

/// Whether a step ends with an update.
enum class Updates : uint8_t { yes, no };

/// One training step: the primitives that a schedule calls, each timed in its bucket of the clock.
class TrainStep final : public Step {
 public:
  TrainStep(Session& session, StepClock& clock, std::vector<Batch> batches, Updates updates = Updates::yes);
  ~TrainStep() override;

  int64_t microbatches() const override { return static_cast<int64_t>(batches_.size()); }
  const Batch& batch(int64_t micro) const override { return batches_.at(static_cast<size_t>(micro)); }
  Tensor forward(int64_t chunk, int64_t micro, Tensor in) override;
  Tensor backward(int64_t chunk, int64_t micro, const Tensor& out, const Tensor& gradient,
                  bool last) override;
  void update() override;
  void time_as_one() override;
  void add_uncounted_memory(int64_t bytes) override { uncounted_memory_ += bytes; }
  const StepOutcome& outcome() const override { return outcome_; }
  void set_outcome(StepOutcome outcome) override { outcome_ = std::move(outcome); }

  int64_t tokens() const { return tokens_; }
  int64_t uncounted_memory() const { return uncounted_memory_; }
  /// Pairs of positions in this rank's packed documents (Segments::pairs).
  double computed_pairs() const;

 private:
  void enter(Bucket);
  Tensor scale_of_gradients() const;

  Session& session_;
  StepClock& clock_;
  std::vector<Batch> batches_;
  StepOutcome outcome_;
  Tensor loss_;           ///< this rank's part of the loss
  Tensor loss_gradient_;  ///< the initial gradient of the last backward of a loss
  std::map<std::pair<int64_t, int64_t>, Tensor> inputs_;  ///< inputs of forwards that wait for their backward
  bool timed_as_one_ = false;
  int64_t tokens_ = 0, uncounted_memory_ = 0;
};

/// The plain schedule: forward and backward of each micro-batch, then the update (gradient accumulation).
void default_schedule(Step&);
}  // namespace optrush
