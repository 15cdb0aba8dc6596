#include "gpu/programs.h"

#include <algorithm>

#include "glu_cu.h"
#include "kernel_parts/gpu_instance.h"
#include "norm_cu.h"
#include "norm_row_cuh.h"
#include "rotate_cu.h"
#include "rounded_cuh.h"
#include "rounded_glu_cu.h"
#include "rounded_norm_cu.h"
#include "units_cuh.h"

namespace optrush::fused {
namespace {
/// With the headers of this folder.
GpuSource source_here(const char* file, const char* text) {
  GpuSource source = gpu::source(file, text);
  source.headers.insert(
      {{"norm_row.cuh", kNormRowCuh}, {"rounded.cuh", kRoundedCuh}, {"units.cuh", kUnitsCuh}});
  return source;
}
}  // namespace

const GpuProgram& gpu::norm_program() {
  static const GpuProgram program(source_here("norm.cu", kNormCu));
  return program;
}
const GpuProgram& gpu::rotate_program() {
  static const GpuProgram program(source("rotate.cu", kRotateCu));
  return program;
}
const GpuProgram& gpu::glu_program() {
  static const GpuProgram program(source_here("glu.cu", kGluCu));
  return program;
}
const GpuProgram& gpu::rounded_glu_program() {
  static const GpuProgram program(source_here("rounded_glu.cu", kRoundedGluCu));
  return program;
}

const GpuProgram& gpu::rounded_norm_program() {
  static const GpuProgram program(source_here("rounded_norm.cu", kRoundedNormCu));
  return program;
}

gpu::RowShape gpu::row_shape(int64_t lanes, int64_t width) {
  // About 16 numbers a thread fit its registers; the widest rows spill.
  const int64_t packs = std::max<int64_t>(1, (width + lanes - 1) / lanes);
  const int64_t wanted = std::max<int64_t>(1, 16 / lanes);
  const int64_t threads = std::clamp<int64_t>(((packs + wanted - 1) / wanted + 31) / 32 * 32, 32, 1024);
  return {lanes, (packs + threads - 1) / threads, threads};
}
std::string gpu::norm_forward_name(Type x, Type delta, Type out, const RowShape& shape, bool adds) {
  return instance("norm_forward", x, delta, out, shape.lanes, shape.steps, shape.threads, adds);
}
std::string gpu::norm_backward_name(Type x, Type delta, Type out, const RowShape& shape, bool adds,
                                    bool lowers) {
  return instance("norm_backward", x, delta, out, shape.lanes, shape.steps, shape.threads, adds, lowers);
}
std::string gpu::rounded_norm_name(Type x, Type delta, const RowShape& shape, bool adds, int64_t tile_rows,
                                   bool turns) {
  return instance("rounded_norm", x, delta, shape.lanes, shape.steps, shape.threads, adds, tile_rows, turns);
}
std::string gpu::sum_weight_parts_name(Type x, Type weight) {
  return instance("sum_weight_parts", x == Type::fp64 ? Type::fp64 : Type::fp32, weight, kPartColumns,
                  kPartLines);
}
std::string gpu::rotate_name(Type type, int64_t lanes) { return instance("rotate", type, lanes); }
std::string gpu::glu_name(const std::string& direction, Type type, int64_t lanes, Gate activation) {
  return instance("glu_" + direction, type, lanes, activation == Gate::gelu_tanh);
}
std::string gpu::rounded_glu_name(const std::string& direction, Type type, int64_t lanes, Gate activation,
                                  int64_t mantissa, bool turns) {
  return instance("rounded_glu_" + direction, type, lanes, activation == Gate::gelu_tanh, mantissa, turns);
}
}  // namespace optrush::fused
