#pragma once
#include <compare>
#include <cstdint>
#include <optional>
#include <string>

#include "optrush/tensor.h"

namespace optrush::cublaslt_matmul {
/// The summand C of D = alpha A B + beta C.
enum class Adds : uint8_t {
  nothing,
  result,  ///< C is D: the product is added to the tensor that has the result
  another  ///< C is another tensor, which stays as it is
};

/// All that the choice of an algorithm depends on. cublasLt's matrices are stored by columns, so a tensor
/// with contiguous rows is its own transpose there, and D = A B is computed as D^T = B^T A^T.
struct Shape {
  int64_t m = 0, n = 0, k = 0;  ///< D has m rows and n columns; the sums have k terms
  bool a_transposed = false, b_transposed = false;
  int64_t a_leading = 0, b_leading = 0, c_leading = 0, d_leading = 0;  ///< distance of columns, in elements
  int64_t a_aligned = 0, b_aligned = 0, c_aligned = 0, d_aligned = 0;  ///< addresses: bytes, at most 256
  at::ScalarType type = at::kFloat;                                    ///< of A and B: fp32, bf16 or fp16
  at::ScalarType result = at::kFloat;                                  ///< of C and D: as `type`, or fp32
  bool tf32 = false;                                                   ///< fp32 factors are rounded to TF32
  Adds adds = Adds::nothing;

  auto operator<=>(const Shape&) const = default;
  /// Its name in the file of choices.
  std::string text() const;
};

struct Product {
  Shape shape;
  const void *a = nullptr, *b = nullptr;
  const void* c = nullptr;  ///< as `d` if nothing is added, or the product is added to it
  void* d = nullptr;
};

/// Whether a (m, k) and b (k, n) are matrices on one GPU whose product this plugin computes in the type
/// `result`: of one type (fp32, bf16, fp16), dense in one of the two orders, and with sides of at least 16.
bool multiplies(const Tensor& a, const Tensor& b, at::ScalarType result);

/// out = a b, plus `sum` if it is defined; none if LibTorch has to compute it: it adds a bias, or `out` or
/// `sum` is not dense, shares memory with another tensor, or has another order than the other one.
std::optional<Product> product_of(const Tensor& a, const Tensor& b, const Tensor& sum, const Tensor& out);
}  // namespace optrush::cublaslt_matmul
