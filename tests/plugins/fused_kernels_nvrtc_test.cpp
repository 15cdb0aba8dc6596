// Every fused GPU kernel compiles for the architectures that matter, on a machine without a GPU too.
#include <gtest/gtest.h>

#include <cstdlib>

#include "gpu/programs.h"
#include "optrush/error.h"

namespace optrush::fused {
namespace {
constexpr Type kTypes[] = {Type::fp32, Type::fp64, Type::bf16, Type::fp16};
constexpr int64_t lanes_of(Type type) { return type == Type::fp64 ? 2 : type == Type::fp32 ? 4 : 8; }

struct Instance {
  const GpuProgram* program;
  std::string kernel;
};

std::vector<Instance> every_kernel() {
  std::vector<Instance> all;
  const auto norms = [&](Type x, Type delta, Type out, int64_t lanes) {
    const auto& program = gpu::norm_program();
    for (const bool adds : {false, true}) {
      all.push_back({&program, gpu::norm_forward_name(x, delta, out, lanes, 2, adds)});
      all.push_back({&program, gpu::norm_backward_name(x, delta, out, lanes, 2, adds, adds && delta != x)});
    }
  };
  for (const Type type : kTypes) {
    for (const int64_t lanes : {lanes_of(type), int64_t{1}}) {
      norms(type, type, type, lanes);
      all.push_back({&gpu::rotate_program(), gpu::rotate_name(type, lanes)});
      all.push_back({&gpu::swiglu_program(), gpu::swiglu_name("forward", type, lanes)});
      all.push_back({&gpu::swiglu_program(), gpu::swiglu_name("backward", type, lanes)});
    }
    all.push_back({&gpu::norm_program(), gpu::sum_weight_parts_name(type, type)});
  }
  for (const Type low : {Type::bf16, Type::fp16}) {
    norms(Type::fp32, low, Type::fp32, 8);
    norms(Type::fp32, low, low, 8);
    norms(Type::fp32, Type::fp32, low, 8);
  }
  return all;
}

class FusedKernelsNvrtc : public ::testing::TestWithParam<const char*> {
 protected:
  // Not the user's cache; one that lasts as long as the build, since what changed has another name in it.
  void SetUp() override { setenv("OPTRUSH_CACHE", OPTRUSH_BUILD_DIR "/tests/cache", 1); }
  void TearDown() override { unsetenv("OPTRUSH_CACHE"); }
};

TEST_P(FusedKernelsNvrtc, EveryKernelCompiles) {
  for (const auto& [program, kernel] : every_kernel()) {
    try {
      const GpuCode code = compile_gpu_kernel(program->source(), kernel, GetParam());
      EXPECT_FALSE(code.image.empty()) << kernel;
    } catch (const Error& error) {
      if (std::string(error.what()).find("was not found") != std::string::npos) GTEST_SKIP() << error.what();
      ADD_FAILURE() << error.what();
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Architectures, FusedKernelsNvrtc, ::testing::Values("sm_80", "sm_90", "sm_100"),
                         [](const auto& info) { return std::string(info.param); });
}  // namespace
}  // namespace optrush::fused
