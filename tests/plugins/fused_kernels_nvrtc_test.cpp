// Every GPU kernel of the plugins compiles for sm_90, also without a GPU, and does not spill registers. The
// fast ones of bf16 and fp32 compile for all supported architectures.
#include <gtest/gtest.h>

#include <cstdlib>

#include "float8/gpu/quantize.h"
#include "fused_delta_net/gpu/programs.h"
#include "fused_kernels/gpu/programs.h"
#include "fused_linear_cross_entropy/cross_entropy.h"
#include "optrush/error.h"
#include "support/cubin.h"
#include "support/folders.h"

namespace optrush::fused {
namespace {
constexpr Type kTypes[] = {Type::fp32, Type::fp64, Type::bf16, Type::fp16};
int64_t lanes_of(Type type) { return 16 / size_of(type); }
constexpr int64_t kWidth = 2048;

struct Instance {
  const GpuProgram* program;
  std::string kernel;
  /// Whether the kernel moves 16 bytes at a time and computes in fp32. fp64 needs twice the registers per
  /// number, and rows of an odd width need twice the loops.
  bool fast = true;
  int registers = 128;  ///< of a fast kernel, at most
  int spilled = 0;      ///< bytes of local memory of a thread of a fast kernel, at most
};

/// The kernels of Gated DeltaNet. They keep tiles of several products, so a thread of the 128 of a block has
/// up to 255 registers, and some versions of NVRTC spill a few.
void add_delta_net(std::vector<Instance>& all, Type type, int64_t lanes) {
  constexpr int kFew = 128;
  const bool fast = lanes > 1 && type != Type::fp64;
  for (const char* kernel : {"squares", "states", "outputs"})
    all.push_back({&gpu::delta_rule_program(), gpu::delta_rule_name(kernel, type, lanes), fast, 255, kFew});
  for (const char* kernel : {"state_gradients", "square_gradients", "key_gradients"})
    all.push_back(
        {&gpu::delta_rule_backward_program(), gpu::delta_rule_name(kernel, type, lanes), fast, 255, kFew});
  const int64_t neighbours = std::min<int64_t>(lanes, 4), taps = lanes > 1 ? 4 : 7;
  for (const char* direction : {"forward", "backward"})
    all.push_back(
        {&gpu::convolution_program(), gpu::convolution_name(direction, type, neighbours, taps), fast});
}
void add_delta_net_rows(std::vector<Instance>& all, Type type) {
  all.push_back({&gpu::delta_rule_program(), gpu::delta_rule_name("lengths", type)});
  for (const char* kernel : {"unnormalize", "gate_gradients"})
    all.push_back({&gpu::delta_rule_backward_program(), gpu::delta_rule_name(kernel, type)});
}

/// Launch shapes for rows of kWidth and for rows of an odd width.
std::vector<Instance> every_kernel() {
  std::vector<Instance> all;
  const auto norms = [&](Type x, Type delta, Type out, int64_t lanes) {
    const auto& program = gpu::norm_program();
    const bool fast = lanes > 1 && x != Type::fp64;
    const auto shape = gpu::row_shape(lanes, kWidth);
    for (const bool adds : {false, true}) {
      all.push_back({&program, gpu::norm_forward_name(x, delta, out, shape, adds), fast});
      all.push_back(
          {&program, gpu::norm_backward_name(x, delta, out, shape, adds, adds && delta != x), fast});
    }
  };
  for (const Type type : kTypes) {
    for (const int64_t lanes : {lanes_of(type), int64_t{1}}) {
      const bool fast = lanes > 1 && type != Type::fp64;
      norms(type, type, type, lanes);
      all.push_back({&gpu::rotate_program(), gpu::rotate_name(type, lanes), fast});
      if (lanes > 1 || type == Type::fp32) add_delta_net(all, type, lanes);
      for (const auto activation : {Gate::silu, Gate::gelu_tanh})
        for (const char* direction : {"forward", "backward"})
          all.push_back({&gpu::glu_program(), gpu::glu_name(direction, type, lanes, activation), fast});
      for (const bool gradient : {false, true})
        for (const bool capped : {false, true})
          all.push_back(
              {&gpu::cross_entropy_program(), gpu::cross_entropy_name(type, lanes, gradient, capped), fast});
      all.push_back({&gpu::rescale_program(), gpu::rescale_name(type, lanes), fast});
      for (const int64_t blocks : {2, 3})
        all.push_back({&gpu::cross_entropy_program(),
                       gpu::cross_entropy_name(type, lanes, true, false, {.threads = 512, .blocks = blocks}),
                       fast && (blocks == 2 || type != Type::fp32), 65536 / 512 / static_cast<int>(blocks)});
    }
    all.push_back({&gpu::norm_program(), gpu::sum_weight_parts_name(type, type)});
    add_delta_net_rows(all, type);
    all.push_back({&gpu::convolution_program(), gpu::sum_convolution_parts_name(type, type)});
  }
  for (const Type low : {Type::bf16, Type::fp16}) {
    norms(Type::fp32, low, Type::fp32, 4);
    norms(Type::fp32, low, low, 4);
    norms(Type::fp32, Type::fp32, low, 4);
  }
  for (const int64_t lanes : {lanes_of(Type::bf16), int64_t{1}})
    for (const auto activation : {Gate::silu, Gate::gelu_tanh})
      for (const bool turns : {false, true})
        for (const auto& [direction, mantissa] : {std::pair("forward", 3), {"backward", 2}})
          all.push_back({&gpu::rounded_glu_program(),
                         gpu::rounded_glu_name(direction, Type::bf16, lanes, activation, mantissa, turns),
                         lanes > 1});
  for (const auto& [x, delta] :
       {std::pair(Type::bf16, Type::bf16), {Type::fp32, Type::bf16}, {Type::fp32, Type::fp32}})
    for (const bool adds : {false, true})
      for (const auto& [width, rows] : {std::pair(kWidth, 32), {4 * kWidth, 16}})
        for (const bool turns : {false, true})
          all.push_back(
              {&gpu::rounded_norm_program(),
               gpu::rounded_norm_name(x, delta, gpu::row_shape(lanes_of(x), width), adds, rows, turns)});
  for (const Type type : {Type::fp32, Type::bf16, Type::fp16})
    for (const int64_t lanes : {lanes_of(type), int64_t{1}}) {
      const auto& program = float8::gpu::program();
      all.push_back({&program, float8::gpu::largest_parts_name(type, lanes)});
      for (const int64_t mantissa : {2, 3})
        for (const bool turns : {false, true})
          all.push_back({&program, float8::gpu::quantize_name(type, lanes, mantissa, turns)});
      const auto& groups = float8::gpu::groups_program();
      for (const bool turns : {false, true})
        all.push_back({&groups, float8::gpu::quantize_groups_name(type, lanes, /*blocks=*/false, turns)});
      all.push_back({&groups, float8::gpu::quantize_groups_name(type, lanes, /*blocks=*/true, false)});
    }
  all.push_back({&float8::gpu::program(), "transpose"});
  return all;
}

class FusedKernelsNvrtc : public ::testing::Test {
 protected:
  // A cache in the build folder instead of the user's. Changed sources have other names in it.
  void SetUp() override { setenv("OPTRUSH_CACHE", (testing::build_folder() + "/tests/cache").c_str(), 1); }
  void TearDown() override { unsetenv("OPTRUSH_CACHE"); }
};

class FusedKernelsForEach : public FusedKernelsNvrtc, public ::testing::WithParamInterface<const char*> {};

TEST_P(FusedKernelsForEach, CompileWithoutSpillingRegisters) {
  const bool whole = std::string(GetParam()) == "sm_90";
  for (const auto& [program, kernel, fast, registers, spilled] : every_kernel()) {
    if (!whole && (!fast || kernel.find("half") != std::string::npos)) continue;
    try {
      const GpuCode code = compile_gpu_kernel(program->source(), kernel, GetParam());
      EXPECT_FALSE(code.image.empty()) << kernel;
      const auto resources = testing::resources_of(code.image);
      EXPECT_GT(resources.registers, 8) << kernel;
      if (!fast) continue;
      EXPECT_LE(resources.local_bytes, spilled) << kernel;
      EXPECT_LE(resources.registers, registers) << kernel;
    } catch (const Error& error) {
      if (std::string(error.what()).find("was not found") != std::string::npos) GTEST_SKIP() << error.what();
      ADD_FAILURE() << error.what();
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Architectures, FusedKernelsForEach, ::testing::Values("sm_80", "sm_90", "sm_100"),
                         [](const auto& info) { return std::string(info.param); });

TEST_F(FusedKernelsNvrtc, RowTooWideForRegistersSpillsAndIsReported) {
  const auto shape = gpu::row_shape(4, 16384);
  EXPECT_EQ(shape.threads, 1024);
  try {
    const GpuCode code = compile_gpu_kernel(
        gpu::norm_program().source(),
        gpu::norm_backward_name(Type::fp32, Type::fp32, Type::fp32, shape, true, false), "sm_90");
    const auto resources = testing::resources_of(code.image);
    EXPECT_LE(resources.registers * shape.threads, 65536);  // otherwise the launch would fail
    EXPECT_GT(resources.local_bytes, 0);
  } catch (const Error& error) {
    if (std::string(error.what()).find("was not found") != std::string::npos) GTEST_SKIP() << error.what();
    ADD_FAILURE() << error.what();
  }
}
}  // namespace
}  // namespace optrush::fused
