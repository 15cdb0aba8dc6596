#pragma once
#include "optrush/tensor.h"
#include "overrides/cpu_products.h"

namespace optrush::upcast_matmul {
/// Bytes of the workspace of one thread.
int64_t workspace_bytes();

struct Kernels {
  /// A matrix in bf16 or fp16, dense in one of the two orders.
  static bool takes(const Tensor& x);
  /// Whether the product has so much work that its conversions are small beside it.
  static bool multiplies(const Tensor& a, const Tensor& b);
  static void multiply(const Tensor& a, const Tensor& b, const Tensor& out, float beta, float alpha);
};

/// While it lives, products of 16 bits on the CPU of this process for which `multiplies` is true are computed
/// in fp32, tile by tile: a thread converts blocks of both matrices, multiplies them with LibTorch's fp32
/// product, and rounds the tile once. `workspace` (threads, workspace_bytes()) has one row for each thread.
class UpcastProducts {
 public:
  explicit UpcastProducts(const Tensor& workspace);
  ~UpcastProducts();
  UpcastProducts(const UpcastProducts&) = delete;
  UpcastProducts& operator=(const UpcastProducts&) = delete;

 private:
  Tensor workspace_;
  CpuProducts<Kernels> replaced_;  ///< ends before the workspace does
};
}  // namespace optrush::upcast_matmul
