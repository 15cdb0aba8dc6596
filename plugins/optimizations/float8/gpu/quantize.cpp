#include "gpu/quantize.h"

#include <algorithm>

#include "kernel_parts/gpu_instance.h"
#include "quantize_cu.h"
#include "quantize_groups_cu.h"

namespace optrush::float8 {
namespace {
constexpr int64_t kThreads = 256, kMostParts = 1024;
constexpr int64_t kTileRows = 128, kTileColumns = 128;  // as in quantize.cu and turned_tile.cuh
constexpr int64_t kNumbersOfGroups = 128 * 128;         // of a block of threads

int64_t ceil_of(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Rows are multiples of 16 numbers, and what LibTorch allocates starts at 16 bytes; views may not.
int64_t lanes(const gpu::Numbers& p) { return fused::gpu::lanes({p.type}, p.count, {p.x}); }

int64_t tiles(int64_t rows, int64_t columns) {
  return ceil_of(rows, kTileRows) * ceil_of(columns, kTileColumns);
}
}  // namespace

const GpuProgram& gpu::program() {
  static const GpuProgram program(fused::gpu::source("quantize.cu", kQuantizeCu));
  return program;
}

const GpuProgram& gpu::groups_program() {
  static const GpuProgram program(fused::gpu::source("quantize_groups.cu", kQuantizeGroupsCu));
  return program;
}

std::string gpu::largest_parts_name(Type type, int64_t lanes) {
  return fused::gpu::instance("largest_parts", type, lanes);
}

std::string gpu::quantize_name(Type type, int64_t lanes, int64_t mantissa, bool turns) {
  return fused::gpu::instance("quantize", type, lanes, mantissa, turns);
}

std::string gpu::quantize_groups_name(Type type, int64_t lanes, bool blocks, bool turns) {
  return fused::gpu::instance("quantize_groups", type, lanes, blocks, turns);
}

int64_t gpu::parts_of(const Numbers& p) {
  constexpr int64_t kPacksPerThread = 4;
  return std::clamp<int64_t>(ceil_of(p.count, lanes(p) * kThreads * kPacksPerThread), 1, kMostParts);
}

void gpu::find_largest(const Numbers& p, float* parts) {
  program()
      .kernel(largest_parts_name(p.type, lanes(p)))
      .launch({.blocks = {parts_of(p), 1, 1}, .threads = {kThreads, 1, 1}}, p.x, parts, p.count);
}

void gpu::quantize(const Quantize& p) {
  if (p.x.count == 0) return;
  program()
      .kernel(quantize_name(p.x.type, lanes(p.x), p.mantissa, p.transposed != nullptr))
      .launch({.blocks = {tiles(p.rows, p.columns), 1, 1}, .threads = {kThreads, 1, 1}}, p.x.x, p.largest,
              static_cast<int>(p.parts), static_cast<int>(p.past), p.seen, p.values, p.transposed, p.scale,
              p.rows, p.columns, p.all_columns);
}

void gpu::transpose(const void* values, void* transposed, int64_t rows, int64_t columns) {
  if (rows * columns == 0) return;
  program()
      .kernel("transpose")
      .launch({.blocks = {tiles(rows, columns), 1, 1}, .threads = {kThreads, 1, 1}}, values, transposed, rows,
              columns);
}

void gpu::quantize_groups(const QuantizeGroups& p) {
  if (p.x.count == 0) return;
  groups_program()
      .kernel(quantize_groups_name(p.x.type, lanes(p.x), p.blocks, p.transposed != nullptr))
      .launch({.blocks = {p.x.count / kNumbersOfGroups, 1, 1}, .threads = {kThreads, 1, 1}}, p.x.x, p.values,
              p.scales, p.transposed, p.turned_scales, p.rows, p.columns, p.all_columns, p.padded);
}
}  // namespace optrush::float8
