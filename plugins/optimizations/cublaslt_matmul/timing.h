#pragma once
#include <cstddef>
#include <functional>

#include "optrush/tensor.h"
#include "product.h"

namespace optrush::cublaslt_matmul {
/// Tensors of a shape with numbers in them, so that products of them take the usual power. The tensors of a
/// training are not touched.
class Operands {
 public:
  /// Throws c10::OutOfMemoryError if the device has too little memory.
  Operands(const Shape&, at::Device);
  Product product() const;

 private:
  Shape shape_;
  Tensor a_, b_, c_, d_;
};

/// The number of the fastest candidate: the least median time of several rounds, in which the candidates take
/// turns. A later candidate wins only if it is faster by more than 1 %, so equal times give the first one.
/// `run` starts one product of a candidate on the current stream, and returns false if it failed; such a
/// candidate does not win. Waits for the device. `count` if each failed.
size_t fastest(size_t count, const std::function<bool(size_t)>& run);
}  // namespace optrush::cublaslt_matmul
