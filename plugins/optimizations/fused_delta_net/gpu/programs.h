#pragma once
#include <string>

#include "fused_delta_net/kernels.h"
#include "optrush/gpu_kernel.h"

/// The sources of the GPU kernels, the names of their instances, and the shared memory of their blocks.
namespace optrush::fused::gpu {
const GpuProgram& delta_rule_program();           ///< lengths, squares, states, outputs
const GpuProgram& delta_rule_backward_program();  ///< the other kernels of the rule
const GpuProgram& convolution_program();

/// `lanes`: neighbours a load.
std::string delta_rule_name(const std::string& kernel, Type, int64_t lanes);
/// A kernel without lanes: lengths, unnormalize, gate_gradients.
std::string delta_rule_name(const std::string& kernel, Type);
std::string convolution_name(const std::string& direction, Type, int64_t lanes, int64_t taps);
/// Columns of a block, and threads that share one.
inline constexpr int64_t kSumColumns = 16, kSumLines = 32;
std::string sum_convolution_parts_name(Type x, Type weight);

/// Bytes of a block.
struct DeltaRuleShared {
  int64_t squares, states, outputs, state_gradients, square_gradients, key_gradients, gate_gradients;
};
DeltaRuleShared delta_rule_shared(Type, int64_t key_width);
}  // namespace optrush::fused::gpu
