#pragma once
#include <c10/util/BFloat16.h>

#include <cstdint>

namespace optrush::flash::cpu {
/// Rows of a matrix: `row` elements from one to the next.
template <class T>
struct Rows {
  T* data;
  int64_t row;
  T* at(int64_t i) const { return data + i * row; }
  Rows from(int64_t i) const { return {at(i), row}; }
};

/// A matrix as the second one of a product (products.h). In fp32 it is in rows. In bf16 two rows are one,
/// their elements side by side, because the processor multiplies two of them at once (VNNI); an odd last row
/// has zeros beside it. `row` is the number of columns from one to the next.
template <class T>
struct Second {
  T* data;
  int64_t row;
};

/// The transpose of (rows, columns). bf16 needs an even number of columns.
void transposed(Rows<const float> in, int64_t rows, int64_t columns, Second<float> out);
void transposed(Rows<const c10::BFloat16> in, int64_t rows, int64_t columns, Second<c10::BFloat16> out);

/// The transpose of (rows, columns) in rows; columns of bf16 are even, and an odd last row has zeros beside
/// it.
void transposed(Rows<const float> in, int64_t rows, int64_t columns, Rows<float> out);
void transposed(Rows<const c10::BFloat16> in, int64_t rows, int64_t columns, Rows<c10::BFloat16> out);

/// (rows, columns) as a second matrix.
void paired(Rows<const c10::BFloat16> in, int64_t rows, int64_t columns, Second<c10::BFloat16> out);
/// The same of fp32, which is rounded.
void paired(Rows<const float> in, int64_t rows, int64_t columns, Second<c10::BFloat16> out);
}  // namespace optrush::flash::cpu
