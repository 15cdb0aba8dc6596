#pragma once
#include <cstdint>

#include "optrush/tensor.h"

namespace optrush {
/// A leaf cast to another type. The first request casts it; later requests of micro-batches, further uses and
/// recomputation return the same tensor. Its gradients flow back to the leaf, even if the first request was
/// without gradients. Not thread-safe for concurrent threads; a backward that recomputes on the engine's
/// thread while its caller waits is allowed.
class ComputeCopy {
 public:
  /// The copy; casts again if the leaf is a different tensor or was written to.
  const Tensor& of(const Tensor& leaf, at::ScalarType);
  /// Frees the copy. The host calls it once per step, as soon as gradients are final.
  void drop() {
    copy_.reset();
    leaf_.reset();
  }
  bool holds(const Tensor& tensor) const { return copy_.defined() && copy_.is_alias_of(tensor); }
  /// Bytes of the last copy, even if freed; 0 if there was none.
  int64_t bytes() const { return bytes_; }

 private:
  Tensor copy_, leaf_;
  int64_t version_ = 0, bytes_ = 0;
};
}  // namespace optrush
