// GPU kernels without a GPU: compiling, its errors, and the cache on disk.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/files.h"
#include "base/temporary_folder.h"
#include "optrush/error.h"
#include "optrush/gpu_kernel.h"
#include "support/error_of.h"

namespace optrush::testing {
namespace {
using ::testing::AllOf;
using ::testing::HasSubstr;

const GpuSource kScale = {.file = "scale.cu",
                          .text = R"(#include "factor.cuh"
#include <cuda_bf16.h>
template <class T>
__global__ void scale(T* x, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = x[i] * T(FACTOR);
}
)",
                          .headers = {{"factor.cuh", "#define FACTOR 2\n"}}};

class GpuKernels : public ::testing::Test {
 protected:
  void SetUp() override {
    setenv("OPTRUSH_CACHE", folder_.path().c_str(), 1);
    try {
      compile_gpu_kernel(kScale, "scale<float>", "sm_80");
    } catch (const Error& error) {
      if (std::string(error.what()).find("was not found") == std::string::npos) throw;
      GTEST_SKIP() << error.what();
    }
  }
  void TearDown() override { unsetenv("OPTRUSH_CACHE"); }
  std::vector<std::filesystem::path> cached() const {
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path() / "kernels"))
      files.push_back(entry.path());
    return files;
  }
  TemporaryFolder folder_;
};

TEST_F(GpuKernels, CompileForOtherArchitectures) {
  for (const char* architecture : {"sm_80", "sm_90", "sm_100"})
    for (const char* kernel : {"scale<float>", "scale<__nv_bfloat16>"}) {
      const GpuCode code = compile_gpu_kernel(kScale, kernel, architecture);
      EXPECT_EQ(code.image.substr(1, 3), "ELF") << kernel;
      EXPECT_THAT(code.symbol, HasSubstr("scale"));
      EXPECT_THAT(code.image, HasSubstr(code.symbol));
    }
}

TEST_F(GpuKernels, ErrorShowsTheMessageOfTheCompilerAndTheLine) {
  GpuSource wrong = kScale;
  wrong.text.insert(wrong.text.find("  if (i"), "  const float y = undeclared;\n");
  EXPECT_THAT(
      error_of([&] { compile_gpu_kernel(wrong, "scale<float>", "sm_90"); }),
      AllOf(HasSubstr("scale.cu: NVRTC"), HasSubstr("cannot compile the kernel 'scale<float>' for sm_90"),
            HasSubstr("scale.cu(6): error"), HasSubstr("\"undeclared\" is undefined"),
            HasSubstr("line 6 of scale.cu:   const float y = undeclared;")));
  wrong = kScale;
  wrong.headers["factor.cuh"] = "#define FACTOR 2\nint f() { return none; }\n";
  EXPECT_THAT(error_of([&] { compile_gpu_kernel(wrong, "scale<float>", "sm_90"); }),
              HasSubstr("line 2 of factor.cuh: int f() { return none; }"));
}

TEST_F(GpuKernels, UnknownKernelsAndArchitecturesAreNamed) {
  EXPECT_THAT(error_of([] { compile_gpu_kernel(kScale, "shrink<float>", "sm_90"); }),
              HasSubstr("shrink<float>"));
  EXPECT_THAT(error_of([] { compile_gpu_kernel(kScale, "scale<float>", "sm_7"); }), HasSubstr("sm_7"));
}

TEST_F(GpuKernels, AreReadFromTheCacheTheSecondTime) {
  ASSERT_EQ(cached().size(), 1U);
  const auto written = std::filesystem::last_write_time(cached().front());
  const GpuCode again = compile_gpu_kernel(kScale, "scale<float>", "sm_80");
  EXPECT_EQ(std::filesystem::last_write_time(cached().front()), written);
  EXPECT_EQ(again.image.substr(1, 3), "ELF");
  // The name includes everything that the code depends on.
  GpuSource other = kScale;
  other.headers["factor.cuh"] = "#define FACTOR 3\n";
  compile_gpu_kernel(other, "scale<float>", "sm_80");
  compile_gpu_kernel(kScale, "scale<double>", "sm_80");
  compile_gpu_kernel(kScale, "scale<float>", "sm_90");
  other = kScale;
  other.options = {"--use_fast_math"};
  compile_gpu_kernel(other, "scale<float>", "sm_80");
  EXPECT_EQ(cached().size(), 5U);
}

TEST_F(GpuKernels, DamagedCacheFileIsReplaced) {
  const auto file = cached().front();
  const std::string good = read_file(file);
  for (const auto& bad : {std::string(), good.substr(0, good.size() / 2), std::string(200, 'x')}) {
    write_file(file, bad);
    EXPECT_EQ(compile_gpu_kernel(kScale, "scale<float>", "sm_80").image.substr(1, 3), "ELF");
    EXPECT_EQ(read_file(file), good);
  }
}

TEST_F(GpuKernels, UnwritableFolderOnlyDisablesTheCache) {
  const auto blocked = folder_.path() / "a file";
  write_file(blocked, "");
  setenv("OPTRUSH_CACHE", blocked.c_str(), 1);
  EXPECT_EQ(compile_gpu_kernel(kScale, "scale<float>", "sm_80").image.substr(1, 3), "ELF");
}
}  // namespace
}  // namespace optrush::testing
