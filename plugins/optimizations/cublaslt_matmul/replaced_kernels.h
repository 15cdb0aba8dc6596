#pragma once
#include <memory>

#include "algorithms.h"

namespace optrush::cublaslt_matmul {
/// While it lives, `algorithms` compute the products of matrices on GPUs of this process for which
/// product_of() has a form. LibTorch computes all others, and those of compiled code, which does not call the
/// dispatcher.
class ReplacedKernels {
 public:
  /// `algorithms` must outlive the object. Throws an Error if LibTorch lacks the kernels to fall back to.
  explicit ReplacedKernels(Algorithms& algorithms);
  ~ReplacedKernels();
  ReplacedKernels(const ReplacedKernels&) = delete;
  ReplacedKernels& operator=(const ReplacedKernels&) = delete;

 private:
  struct Registered;
  std::unique_ptr<Registered> registered_;
};
}  // namespace optrush::cublaslt_matmul
