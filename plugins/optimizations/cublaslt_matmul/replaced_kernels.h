#pragma once
#include <memory>

#include "algorithms.h"

namespace optrush::cublaslt_matmul {
/// While it lives, `algorithms` compute the products on GPUs of this process that product_of() accepts.
/// LibTorch computes all others. Compiled code does not call the dispatcher, so its products stay LibTorch's.
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
