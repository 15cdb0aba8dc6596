#pragma once
#include <cstdint>

#include "optrush/batch.h"

namespace optrush {
/// What the host reports of a step, on the device.
struct StepOutcome {
  Tensor loss;           ///< mean of the global batch, the same on every rank
  Tensor gradient_norm;  ///< L2 norm of the final gradient before clipping, loss scale taken off
  Tensor skipped;        ///< 1 where the update was skipped; undefined where nothing can skip
};

/// The primitives that a schedule composes; the host times each. Nothing here reads a device from the host.
class Step {
 public:
  virtual ~Step() = default;
  virtual int64_t microbatches() const = 0;
  virtual const Batch& batch(int64_t micro) const = 0;
  /// Runs the units of `chunk` (one chunk without pipeline parallelism) under the recipe's scopes. `in` is
  /// undefined for the chunk that starts with embed; the chunk that ends with head returns the micro-batch's
  /// part of the loss.
  virtual Tensor forward(int64_t chunk, int64_t micro, Tensor in) = 0;
  /// Of what forward(chunk, micro) returned. `gradient` is undefined for a loss; `last`: no other backward of
  /// this chunk follows in this step. Returns the gradient of that forward's `in`; undefined for the chunk
  /// that starts with embed.
  virtual Tensor backward(int64_t chunk, int64_t micro, const Tensor& out, const Tensor& gradient,
                          bool last) = 0;
  /// Gradients become final, pass the gradients slot, and the optimizer updates the parameters.
  virtual void update() = 0;

  /// For schedules that record a step and run it again as a whole. From here on the step is timed as one: its
  /// phases can't be told apart.
  virtual void time_as_one() = 0;
  /// Of the primitives that were called, or what a recorded step gave.
  virtual const StepOutcome& outcome() const = 0;
  virtual void set_outcome(StepOutcome) = 0;
};
}  // namespace optrush
