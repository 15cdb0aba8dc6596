#include "gpu/programs.h"

#include <utility>

#include "chunk_cuh.h"
#include "convolution_cu.h"
#include "delta_rule_backward_cu.h"
#include "delta_rule_cu.h"
#include "kernel_parts/gpu_instance.h"
#include "tiles_cuh.h"

namespace optrush::fused {
namespace {
GpuSource source_with_chunks(const char* file, const char* text) {
  GpuSource source = gpu::source(file, text);
  source.headers.insert({{"chunk.cuh", kChunkCuh}, {"tiles.cuh", kTilesCuh}});
  return source;
}
}  // namespace

const GpuProgram& gpu::delta_rule_program() {
  static const GpuProgram program(source_with_chunks("delta_rule.cu", kDeltaRuleCu));
  return program;
}
const GpuProgram& gpu::delta_rule_backward_program() {
  static const GpuProgram program(source_with_chunks("delta_rule_backward.cu", kDeltaRuleBackwardCu));
  return program;
}
const GpuProgram& gpu::convolution_program() {
  static const GpuProgram program(source("convolution.cu", kConvolutionCu));
  return program;
}

std::string gpu::delta_rule_name(const std::string& kernel, Type type, int64_t lanes) {
  return instance(kernel, type, lanes);
}
std::string gpu::delta_rule_name(const std::string& kernel, Type type) { return instance(kernel, type); }
std::string gpu::convolution_name(const std::string& direction, Type type, int64_t lanes, int64_t taps) {
  return instance("convolution_" + direction, type, lanes, taps);
}
std::string gpu::sum_convolution_parts_name(Type x, Type weight) {
  return instance("sum_weight_parts", x == Type::fp64 ? Type::fp64 : Type::fp32, weight, kSumColumns,
                  kSumLines);
}

gpu::DeltaRuleShared gpu::delta_rule_shared(Type type, int64_t key_width) {
  constexpr int64_t kGap = 4, kSliceRow = kSlice + kGap, kSlabRow = kSlab + kGap;  // as in tiles.cuh
  const int64_t chunk = delta_rule_chunk(type), keys = (key_width + kSlice - 1) / kSlice * kSlice;
  const int64_t gates = 5 * chunk, square = chunk * (chunk + kGap), rows = chunk * (keys + kGap);
  const int64_t slice = chunk * kSliceRow, state = keys * kSliceRow;
  const auto bytes = [&](int64_t numbers) { return numbers * (type == Type::fp64 ? 8 : 4); };
  return {.squares = bytes(gates + 2 * slice + 2 * square),
          .states = bytes(gates + rows + square + state + 2 * slice),
          .outputs = bytes(gates + rows + square + state + slice),
          .state_gradients = bytes(gates + rows + square + state + 3 * slice),
          .square_gradients = bytes(gates + 4 * slice + 2 * square),
          .key_gradients = bytes(gates + 2 * chunk * kSlabRow + 3 * slice + 2 * kSlab * kSliceRow),
          .gate_gradients = bytes(gates)};
}
}  // namespace optrush::fused
