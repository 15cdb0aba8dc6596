#pragma once
#include <cstdint>
#include <string>

#include "kernel_parts/type.h"
#include "optrush/gpu_kernel.h"

/// The GPU's kernels. Arguments are plain pointers.
namespace optrush::float8::gpu {
using fused::Type;

/// Dense, not fp64.
struct Numbers {
  Type type;
  const void* x;
  int64_t count;
};
/// Floats that find_largest() needs for the largest values of parts.
int64_t parts_of(const Numbers&);
/// Launches one kernel on the current stream, like each function here. Without numbers the largest value is
/// 0.
void find_largest(const Numbers&, float* parts);

/// A dense matrix and the addresses of its 8-bit values. The number of columns is a multiple of 16, and so is
/// the number of rows if a transpose is made.
struct Quantize {
  Numbers x;
  int64_t mantissa;  ///< bits: 3 of e4m3, 2 of e5m2
  int64_t rows, columns;
  int64_t all_columns;   ///< of the matrix (rows, all_columns) in which `values` are columns
  const float* largest;  ///< of parts; the largest of all gives the scale
  int64_t parts;
  bool past;                  ///< the largest values are of earlier steps, so numbers may be larger
  float* seen;                ///< fused::kLargestParts, raised to the largest values of this matrix; or null
  void *values, *transposed;  ///< (rows, columns); (columns, rows), or null
  float* scale;
};
void quantize(const Quantize&);
/// (rows, columns) of bytes to (columns, rows); multiples of 16.
void transpose(const void* values, void* transposed, int64_t rows, int64_t columns);

/// A dense matrix in e4m3 with a scale for each group of 128 numbers, of which rows and columns are
/// multiples. quantize_groups.cu has the layouts.
struct QuantizeGroups {
  Numbers x;
  bool blocks;  ///< a scale is of 128 rows and columns; otherwise of 128 numbers of a row
  int64_t rows, columns;
  int64_t all_columns;  ///< of the matrix in which `values` are columns
  int64_t padded;       ///< of blocks: scales of a row of blocks
  void* values;
  float* scales;
  void* transposed;      ///< or null; not of blocks
  float* turned_scales;  ///< of the transpose
};
void quantize_groups(const QuantizeGroups&);

const GpuProgram& program();
const GpuProgram& groups_program();
std::string quantize_groups_name(Type, int64_t lanes, bool blocks, bool turns);
std::string largest_parts_name(Type, int64_t lanes);
std::string quantize_name(Type, int64_t lanes, int64_t mantissa, bool turns);
}  // namespace optrush::float8::gpu
