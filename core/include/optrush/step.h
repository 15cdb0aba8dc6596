#pragma once
#include <cstdint>

#include "optrush/batch.h"

namespace optrush {
/// The reported values of a step, on the device.
struct StepOutcome {
  Tensor loss;           ///< mean of the global batch, the same on every rank
  Tensor gradient_norm;  ///< L2 norm of the final gradient before clipping, without the loss scale
  Tensor skipped;        ///< 1 if the update was skipped; undefined if it cannot be skipped
};

/// The primitives of a schedule; the host times each. None synchronizes the host with the device.
class Step {
 public:
  virtual ~Step() = default;
  virtual int64_t microbatches() const = 0;
  virtual const Batch& batch(int64_t micro) const = 0;
  /// Runs the units of `chunk` (there is one chunk without pipeline parallelism) under the recipe's scopes.
  /// `in` is undefined for the chunk with embed; the one with head returns its part of the loss.
  virtual Tensor forward(int64_t chunk, int64_t micro, Tensor in) = 0;
  /// The backward of `out`, the result of forward(chunk, micro). `gradient` is undefined for a loss; `last`:
  /// no other backward of this chunk follows in this step. Returns the gradient of that forward's `in`;
  /// undefined for the chunk with the unit embed.
  virtual Tensor backward(int64_t chunk, int64_t micro, const Tensor& out, const Tensor& gradient,
                          bool last) = 0;
  /// Gradients become final, pass the gradients slot, and the optimizer updates the parameters.
  virtual void update() = 0;

  /// For schedules that record a step and replay it as a whole. It is then timed without phases.
  virtual void time_as_one() = 0;
  /// For a replayed step. Adds `bytes` to the measured peak, which the device's allocator does not count.
  virtual void add_uncounted_memory(int64_t bytes) = 0;
  /// The outcome of the called primitives, or of a recorded step.
  virtual const StepOutcome& outcome() const = 0;
  virtual void set_outcome(StepOutcome) = 0;
};
}  // namespace optrush
