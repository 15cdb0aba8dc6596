#pragma once
#include <vector>

#include "cublas_lt.h"
#include "product.h"

namespace optrush::cublaslt_matmul {
/// The descriptors of one shape. They are made once, because a product of a small model takes less time than
/// making them.
class Descriptors {
 public:
  /// Throws an Error if cuBLASLt refuses a descriptor.
  Descriptors(const CublasLt&, const Shape&);

  /// At most `count` algorithms that need at most `workspace` bytes, the one that is expected to be the
  /// fastest first. Empty if cuBLASLt has none. Partial sums are added in fp32.
  std::vector<Candidate> candidates(void* handle, int count, size_t workspace) const;
  /// Whether the algorithm computes this shape within `workspace` bytes.
  bool accepts(void* handle, const Algorithm&, size_t workspace) const;
  /// D = alpha A B + beta C on the stream.
  Status multiply(void* handle, const Product&, float alpha, float beta, const Algorithm&, void* workspace,
                  size_t workspace_bytes, void* stream) const;

 private:
  const CublasLt& lt_;
  Shape shape_;
  Owned product_, a_, b_, c_, d_;
};
}  // namespace optrush::cublaslt_matmul
