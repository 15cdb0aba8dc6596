#pragma once
#include <cstdint>
#include <string>

#include "kernel_parts/type.h"
#include "optrush/gpu_kernel.h"

/// The GPU's kernels, given plain pointers.
namespace optrush::float8::gpu {
using fused::Type;

/// A dense matrix and where its 8 bits go. Columns are a multiple of 16, and rows where a transpose is made.
struct Quantize {
  Type type;         ///< of x: not fp64
  int64_t mantissa;  ///< bits: 3 of e4m3, 2 of e5m2
  const void* x;
  int64_t rows, columns;
  void *values, *transposed;  ///< (rows, columns); (columns, rows), or null
  float* scale;
};

/// Floats that quantize() needs for the largest values of parts.
int64_t parts_of(const Quantize&);
/// Two kernels on the current stream.
void quantize(const Quantize&, float* parts);
/// (rows, columns) of bytes to (columns, rows); multiples of 16.
void transpose(const void* values, void* transposed, int64_t rows, int64_t columns);

const GpuProgram& program();
std::string largest_parts_name(Type, int64_t lanes);
std::string quantize_name(Type, int64_t lanes, int64_t mantissa, bool turns);
}  // namespace optrush::float8::gpu
