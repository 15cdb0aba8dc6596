#pragma once
#include "optrush/tensor.h"
#include "overrides/cpu_products.h"

namespace optrush::onednn_matmul {
/// Whether oneDNN has faster fp32 kernels for the processor than the BLAS that LibTorch calls, according to
/// measurements: MKL has AVX-512 kernels only for Intel's processors, and oneDNN for all processors with
/// AVX-512.
bool expected_faster();

/// Whether this LibTorch exports the function that calls oneDNN's matmul, and the function accepts this
/// processor.
bool available();

struct Kernels {
  /// An fp32 matrix, dense in one of the two orders.
  static bool takes(const Tensor& x);
  /// Whether matrices (m, k) and (k, n) have so much work that the cost of the call is small.
  static bool multiplies(const Tensor& a, const Tensor& b);
  static void multiply(const Tensor& a, const Tensor& b, const Tensor& out, float beta, float alpha);
};

/// While it lives, oneDNN computes the fp32 products of matrices on the CPU of this process for which
/// `multiplies` is true, including products of autograd and of compiled code. LibTorch computes all others.
class Products {
 public:
  Products();

 private:
  CpuProducts<Kernels> replaced_;
};
}  // namespace optrush::onednn_matmul
