#pragma once
#include <cstddef>

#include "cpu/products.h"
#include "cpu/rows.h"
#include "kernel_parts/cpu/convert.h"

namespace optrush::flash::cpu {
/// Hands out parts of the memory of one thread. Without memory, it counts how much is needed.
class Arena {
 public:
  explicit Arena(std::byte* begin = nullptr) : begin_(begin) {}

  template <class T>
  T* take(int64_t count) {
    constexpr int64_t kLine = 64;
    std::byte* const at = begin_ == nullptr ? nullptr : begin_ + used_;
    used_ += (count * static_cast<int64_t>(sizeof(T)) + kLine - 1) / kLine * kLine;
    return reinterpret_cast<T*>(at);
  }
  int64_t used() const { return used_; }

 private:
  std::byte* begin_;
  int64_t used_ = 0;
};

template <class T>
Rows<T> take_rows(int64_t rows, int64_t row, Arena& arena) {
  return {arena.take<T>(rows * row), row};
}

template <class T>
Rows<const T> read(Rows<T> rows) {
  return {rows.data, rows.row};
}

/// Rows of T that a pass over rows in fp32 writes. In fp32 they are the same memory.
template <class T>
class RowsOver {
 public:
  RowsOver(int64_t rows, int64_t row, Arena& arena)
      : rounded_(take_rows<T>(kPaired<T> ? rows : 0, row, arena)) {}

  Rows<T> over(Rows<float> rows) const {
    if constexpr (kPaired<T>)
      return rounded_;
    else
      return rows;
  }

 private:
  Rows<T> rounded_;
};

/// Rows of Stored in the type T of the products: the same memory, or bf16 converted to fp32.
template <class T, class Stored>
class Widened {
 public:
  Widened(int64_t rows, int64_t columns, Arena& arena)
      : wide_(take_rows<T>(kSame ? 0 : rows, columns, arena)) {}

  Rows<const T> of(Rows<const Stored> in, int64_t rows) const {
    if constexpr (kSame) {
      return in;
    } else {
      auto* const bits = const_cast<Stored*>(in.data);
      fused::widened({fused::Type::bf16, bits, in.row}, rows, wide_.row, wide_.data);
      return read(wide_);
    }
  }

 private:
  static constexpr bool kSame = std::is_same_v<T, Stored>;
  Rows<T> wide_;
};

/// Converts matrices to second matrices of products. It takes memory where T needs pairs.
template <class T>
class AsSecond {
 public:
  AsSecond(int64_t rows, int64_t row, Arena& arena)
      : paired_{arena.take<T>(kPaired<T> ? inner_size<T>(rows) * row : 0), row} {}

  Second<const T> of(Rows<const T> in, int64_t rows, int64_t columns) const {
    if constexpr (kPaired<T>) {
      paired(in, rows, columns, paired_);
      return {paired_.data, paired_.row};
    } else {
      return {in.data, in.row};
    }
  }

 private:
  Second<T> paired_;
};

/// Converts the transposes of matrices (rows, columns) to second matrices of products.
template <class T>
class TransposedSecond {
 public:
  TransposedSecond(int64_t columns, int64_t row, Arena& arena)
      : transposed_{arena.take<T>(inner_size<T>(columns) * row), row} {}

  Second<const T> of(Rows<const T> in, int64_t rows, int64_t columns) const {
    transposed(in, rows, columns, transposed_);
    return {transposed_.data, transposed_.row};
  }

 private:
  Second<T> transposed_;
};
}  // namespace optrush::flash::cpu
