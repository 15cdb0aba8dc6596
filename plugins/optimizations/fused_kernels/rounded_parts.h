#pragma once
#include "kernel_parts/rounding.h"
#include "kernels.h"
#include "optrush/tensor.h"

namespace optrush::fused {
/// Whether x (.., C) is a matrix that a kernel may write in 8 bits: rows of the transpose have whole vectors
/// of them.
inline bool fits_8_bits(const Tensor& x) {
  constexpr int64_t kMultiple = 16;
  const int64_t columns = x.size(-1), rows = columns == 0 ? 0 : x.numel() / columns;
  return rows > 0 && rows % kMultiple == 0 && columns % kMultiple == 0;
}

/// The arguments of a kernel that writes `columns` columns of the matrix, or equally many beside each other.
inline RoundedMatrix place_of(const Rounded& matrix, int64_t columns) {
  const auto bytes = [](const Tensor& of) {
    return of.defined() ? static_cast<uint8_t*>(of.data_ptr()) : nullptr;
  };
  const auto& [past, seen] = matrix.rounding.scale;
  return {.past = past.const_data_ptr<float>(),
          .seen = seen.mutable_data_ptr<float>(),
          .values = bytes(matrix.values),
          .transposed = bytes(matrix.transposed),
          .scale = matrix.scale.mutable_data_ptr<float>(),
          .past_count = past.numel(),
          .rows = matrix.values.size(0),
          .columns = columns,
          .all_columns = matrix.values.size(1)};
}
}  // namespace optrush::fused
