// Launching custom kernels on a GPU.
#include <ATen/Functions.h>
#include <gmock/gmock.h>

#include "on_gpu.h"
#include "optrush/gpu_kernel.h"
#include "support/error_of.h"

namespace optrush::testing {
namespace {
const GpuProgram& program() {
  static const GpuProgram made({.file = "add.cu", .text = R"(
template <class T>
__global__ void add(T* x, T value, long long count) {
  const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) x[i] += value;
}
)"});
  return made;
}

class GpuKernelsOnGpu : public OnGpu {};

TEST_F(GpuKernelsOnGpu, RunInTheOrderOfTheStream) {
  const at::Tensor x = at::zeros({1000}, at::TensorOptions(at::kFloat).device(at::kCUDA));
  const GpuKernel& add = program().kernel("add<float>");
  EXPECT_EQ(&add, &program().kernel("add<float>"));
  for (int i = 0; i < 3; ++i)
    add.launch({.blocks = {4, 1, 1}, .threads = {256, 1, 1}}, x.data_ptr(), 1.5F, int64_t{1000});
  EXPECT_TRUE(at::equal(at::mul(x, 2).cpu(), at::full({1000}, 9.0F)));
  EXPECT_GE(add.resident_blocks(256), 1);
}

TEST_F(GpuKernelsOnGpu, RefuseArgumentsOfWrongSizes) {
  const at::Tensor x = at::zeros({8}, at::TensorOptions(at::kFloat).device(at::kCUDA));
  const GpuKernel& add = program().kernel("add<float>");
  EXPECT_THAT(error_of([&] { add.launch({}, x.data_ptr(), 1.5, int64_t{8}); }),
              ::testing::HasSubstr("argument 2 of kernel 'add<float>' has 4 bytes, but 8 were given"));
  EXPECT_THAT(error_of([&] { add.launch({}, x.data_ptr(), 1.5F); }),
              ::testing::HasSubstr("takes 3 arguments, but 2 were given"));
}
}  // namespace
}  // namespace optrush::testing
