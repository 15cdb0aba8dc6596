#pragma once
#include <c10/util/BFloat16.h>

#include <cstdint>
#include <type_traits>

namespace optrush::flash::cpu {
/// Rows of a matrix. `row`: the stride between rows, in elements.
template <class T>
struct Rows {
  T* data;
  int64_t row;
  T* at(int64_t i) const { return data + i * row; }
  Rows from(int64_t i) const { return {at(i), row}; }
  Rows from_column(int64_t i) const { return {data + i, row}; }
};

template <class T>
inline constexpr bool kPaired = std::is_same_v<T, c10::BFloat16>;

/// The second matrix of a product (products.h). In fp32 it is in rows. In bf16 the elements of two rows
/// alternate, because the processor multiplies two of them at once (VNNI); an odd last row alternates with
/// zeros. `row`: the stride, in columns.
template <class T>
struct Second {
  static constexpr int64_t kRows = kPaired<std::remove_const_t<T>> ? 2 : 1;
  T* data;
  int64_t row;
  /// In bf16, i is even.
  Second from_row(int64_t i) const { return {data + i * row, row}; }
  Second from_column(int64_t i) const { return {data + i * kRows, row}; }
};

/// The transpose of (rows, columns). bf16 needs an even number of columns.
void transposed(Rows<const float> in, int64_t rows, int64_t columns, Second<float> out);
void transposed(Rows<const c10::BFloat16> in, int64_t rows, int64_t columns, Second<c10::BFloat16> out);

/// The transpose of (rows, columns) in rows. bf16 needs an even number of columns; zeros fill an odd last
/// row.
void transposed(Rows<const float> in, int64_t rows, int64_t columns, Rows<float> out);
void transposed(Rows<const c10::BFloat16> in, int64_t rows, int64_t columns, Rows<c10::BFloat16> out);

/// (rows, columns) as the second matrix of a product.
void paired(Rows<const c10::BFloat16> in, int64_t rows, int64_t columns, Second<c10::BFloat16> out);
}  // namespace optrush::flash::cpu
