#pragma once
#include <ATen/native/CPUBlas.h>

#include <algorithm>

#include "cpu/layout.h"

namespace optrush::flash::cpu {
/// The smallest inner size >= n that a product supports: an even number in bf16.
template <class T>
constexpr int64_t inner_size(int64_t n) {
  return kPaired<T> ? (n + 1) / 2 * 2 : n;
}

/// out (m, n) = a (m, k) b (k, n), or out + a b. oneDNN generates a kernel for each shape at run time, so
/// large products use blocks of few shapes. k is an inner_size.
template <class T>
void multiply(int64_t m, int64_t n, int64_t k, Rows<const T> a, Second<const T> b, bool add,
              Rows<float> out) {
  constexpr int64_t kBlock = 512;
  for (int64_t column = 0; column < n; column += kBlock)
    for (int64_t inner = 0; inner < k; inner += kBlock)
      at::native::cpublas::brgemm(m, std::min(kBlock, n - column), std::min(kBlock, k - inner), a.row, b.row,
                                  out.row, add || inner > 0, a.data + inner,
                                  b.from_row(inner).from_column(column).data, out.data + column, kPaired<T>);
}
}  // namespace optrush::flash::cpu
