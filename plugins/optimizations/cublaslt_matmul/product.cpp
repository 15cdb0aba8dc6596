#include "product.h"

#include <ATen/Context.h>

#include <algorithm>

namespace optrush::cublaslt_matmul {
namespace {
/// LibTorch computes smaller ones, such as products with vectors. They are no work.
constexpr int64_t kLeastSide = 16;
/// cublasLt's algorithms need no more.
constexpr uintptr_t kMostAligned = 256;

struct Stored {
  bool by_rows = false;
  int64_t leading = 0;
};
/// A matrix with contiguous rows or columns; none for another one.
std::optional<Stored> stored(const Tensor& x) {
  const auto rows = x.stride(0), columns = x.stride(1);
  if (columns == 1 && rows >= x.size(1)) return Stored{true, rows};
  if (rows == 1 && columns >= x.size(0)) return Stored{false, columns};
  return {};
}

bool is_dense_matrix(const Tensor& x) {
  return x.layout() == at::kStrided && x.dim() == 2 && !x.is_conj() && !x.is_neg() && stored(x).has_value();
}

int64_t alignment(const void* address) {
  const auto number = reinterpret_cast<uintptr_t>(address) | kMostAligned;
  return static_cast<int64_t>(number & (~number + 1));  // the lowest bit
}

std::string name_of(at::ScalarType type) {
  return type == at::kFloat ? "fp32" : type == at::kHalf ? "fp16" : "bf16";
}
}  // namespace

std::string Shape::text() const {
  const auto numbers = [](std::initializer_list<int64_t> all) {
    std::string list;
    for (const int64_t each : all) list += " " + std::to_string(each);
    return list;
  };
  std::string text = std::string(a_transposed ? "t" : "n") + (b_transposed ? "t" : "n") + numbers({m, n, k}) +
                     " " + (tf32 ? "tf32" : name_of(type)) + " " + name_of(result) + " leading" +
                     numbers({a_leading, b_leading, c_leading, d_leading}) + " aligned" +
                     numbers({a_aligned, b_aligned, c_aligned, d_aligned});
  if (adds == Adds::result) text += " added to the result";
  if (adds == Adds::another) text += " with a summand";
  return text;
}

bool multiplies(const Tensor& a, const Tensor& b, at::ScalarType result) {
  const auto type = a.scalar_type();
  if (type != at::kFloat && type != at::kBFloat16 && type != at::kHalf) return false;
  if (b.scalar_type() != type || (result != type && result != at::kFloat)) return false;
  if (!is_dense_matrix(a) || !is_dense_matrix(b) || a.device() != b.device() || a.size(1) != b.size(0))
    return false;
  return std::min({a.size(0), a.size(1), b.size(1)}) >= kLeastSide;
}

std::optional<Product> product_of(const Tensor& a, const Tensor& b, const Tensor& sum, const Tensor& out) {
  if (!multiplies(a, b, out.scalar_type()) || !is_dense_matrix(out) || out.device() != a.device() ||
      out.size(0) != a.size(0) || out.size(1) != b.size(1) || out.is_alias_of(a) || out.is_alias_of(b))
    return {};
  const Stored of_out = *stored(out);
  Adds adds = Adds::nothing;
  Stored of_sum = of_out;
  if (sum.defined()) {
    if (sum.scalar_type() != out.scalar_type() || sum.device() != out.device() || !is_dense_matrix(sum) ||
        sum.sizes() != out.sizes() || stored(sum)->by_rows != of_out.by_rows)
      return {};
    of_sum = *stored(sum);
    const bool same = sum.data_ptr() == out.data_ptr() && of_sum.leading == of_out.leading;
    if (!same && sum.is_alias_of(out)) return {};
    adds = same ? Adds::result : Adds::another;
  }
  const Tensor &left = of_out.by_rows ? b : a, &right = of_out.by_rows ? a : b;
  const Stored of_left = *stored(left), of_right = *stored(right);
  Product product;
  product.a = left.const_data_ptr();
  product.b = right.const_data_ptr();
  product.d = out.mutable_data_ptr();
  product.c = adds == Adds::another ? sum.const_data_ptr() : product.d;
  product.shape = {.m = out.size(of_out.by_rows ? 1 : 0),
                   .n = out.size(of_out.by_rows ? 0 : 1),
                   .k = a.size(1),
                   .a_transposed = of_left.by_rows != of_out.by_rows,
                   .b_transposed = of_right.by_rows != of_out.by_rows,
                   .a_leading = of_left.leading,
                   .b_leading = of_right.leading,
                   .c_leading = of_sum.leading,
                   .d_leading = of_out.leading,
                   .a_aligned = alignment(product.a),
                   .b_aligned = alignment(product.b),
                   .c_aligned = alignment(product.c),
                   .d_aligned = alignment(product.d),
                   .type = a.scalar_type(),
                   .result = out.scalar_type(),
                   .tf32 = a.scalar_type() == at::kFloat && at::globalContext().allowTF32CuBLAS(),
                   .adds = adds};
  return product;
}
}  // namespace optrush::cublaslt_matmul
