#pragma once
#include <cstdint>

#include "optrush/tensor.h"

namespace optrush {
/// A leaf in another type. It is cast when it is first asked for; from then on everybody gets the same
/// tensor: micro-batches, several uses, recomputation. Its gradients go back to the leaf, also where it was
/// first asked for without gradients. Not for threads that run at the same time; a backward that recomputes
/// on the engine's thread while its caller waits is fine.
class StepCopy {
 public:
  /// Cast again where the leaf is another tensor, or was written to, since.
  const Tensor& of(const Tensor& leaf, at::ScalarType);
  /// The host does so once a step, as soon as gradients are final: no step holds the copies of another.
  void drop() {
    copy_.reset();
    leaf_.reset();
  }
  bool holds(const Tensor& tensor) const { return copy_.defined() && copy_.is_alias_of(tensor); }
  /// Of the last copy, dropped or not; 0 where nobody asked for one.
  int64_t bytes() const { return bytes_; }

 private:
  Tensor copy_, leaf_;
  int64_t version_ = 0, bytes_ = 0;
};
}  // namespace optrush
