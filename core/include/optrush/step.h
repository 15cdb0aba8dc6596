#pragma once
#include <cstdint>

#include "optrush/batch.h"

namespace optrush {
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
  /// `gradient` is undefined for a loss. Returns the gradient of `in` where it had one.
  virtual Tensor backward(int64_t chunk, int64_t micro, const Tensor& out, const Tensor& gradient,
                          bool last) = 0;
  /// Gradients become final, pass the gradients slot, and the optimizer updates the parameters.
  virtual void update() = 0;
};
}  // namespace optrush
