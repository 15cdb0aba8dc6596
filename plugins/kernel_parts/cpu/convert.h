#pragma once
#include <cstdint>

#include "kernel_parts/type.h"

namespace optrush::fused {
/// Rows of a matrix in one of the types of 16 bits. `row`: the distance of rows, in elements.
struct NarrowRows {
  Type type;
  void* data;
  int64_t row;
};

/// to (rows, columns) = from, in fp32; rows of `to` are `columns` apart.
void widened(const NarrowRows& from, int64_t rows, int64_t columns, float* to);

/// to = alpha from + beta to, rounded once; with beta = 0 `to` is not read. from (rows, columns) is dense.
void narrowed(const float* from, int64_t rows, int64_t columns, float alpha, float beta,
              const NarrowRows& to);
}  // namespace optrush::fused
