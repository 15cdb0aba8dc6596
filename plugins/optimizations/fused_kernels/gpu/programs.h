#pragma once
#include <string>

#include "kernels.h"
#include "optrush/gpu_kernel.h"

/// The sources of the GPU kernels, and the names of their instances.
namespace optrush::fused::gpu {
const GpuProgram& norm_program();
const GpuProgram& rotate_program();
const GpuProgram& glu_program();
const GpuProgram& rounded_glu_program();
const GpuProgram& rounded_norm_program();

/// How a block shares a row: `lanes` numbers a load, `steps` loads for each of `threads`.
struct RowShape {
  int64_t lanes, steps, threads;
};
RowShape row_shape(int64_t lanes, int64_t width);
std::string norm_forward_name(Type x, Type delta, Type out, const RowShape&, bool adds);
std::string norm_backward_name(Type x, Type delta, Type out, const RowShape&, bool adds, bool lowers);
std::string rounded_norm_name(Type x, Type delta, const RowShape&, bool adds, int64_t tile_rows, bool turns);
/// Columns of a block, and threads that share one.
inline constexpr int64_t kPartColumns = 16, kPartLines = 32;
std::string sum_weight_parts_name(Type x, Type weight);
std::string rotate_name(Type, int64_t lanes);
std::string glu_name(const std::string& direction, Type, int64_t lanes, Gate);
std::string rounded_glu_name(const std::string& direction, Type, int64_t lanes, Gate, int64_t mantissa,
                             bool turns);
}  // namespace optrush::fused::gpu
