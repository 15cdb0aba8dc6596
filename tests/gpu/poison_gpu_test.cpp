// The debug mode that fills freed memory of the GPU (OPTRUSH_POISON), in the order of the block's stream.
#include <ATen/Functions.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_runtime_api.h>
#include <gmock/gmock.h>

#include <cstdlib>
#include <vector>

#include "measure/memory.h"
#include "on_gpu.h"

namespace optrush::testing {
namespace {
using ::testing::Each;
constexpr int64_t kNumbers = 4096;
constexpr uint32_t kPoisoned = 0xFFFFFFFF;

class PoisonOnGpu : public OnGpu {
 protected:
  void SetUp() override {
    OnGpu::SetUp();
    if (IsSkipped()) return;
    ::setenv("OPTRUSH_POISON", "1", 1);
    poison_freed_gpu_memory();
  }
  /// Enqueues a copy to the host on the current stream.
  static void read(std::vector<uint32_t>& to, const void* from) {
    cudaMemcpyAsync(to.data(), from, to.size() * sizeof(uint32_t), cudaMemcpyDeviceToHost,
                    c10::cuda::getCurrentCUDAStream());
  }
  static std::vector<uint32_t> bits() { return std::vector<uint32_t>(kNumbers, 7); }
  static Tensor zeros_on_gpu() { return at::zeros({kNumbers}, at::kInt).to(at::kCUDA); }
};

TEST_F(PoisonOnGpu, FreedBlockIsFilledAfterEarlierWorkOfItsStream) {
  for (const bool own_stream : {false, true}) {
    const c10::cuda::CUDAStreamGuard guard(own_stream ? c10::cuda::getStreamFromPool()
                                                      : c10::cuda::getDefaultCUDAStream());
    Tensor block = zeros_on_gpu();
    const void* const place = block.const_data_ptr();
    auto before = bits(), after = bits();
    read(before, place);
    block.reset();
    read(after, place);
    c10::cuda::getCurrentCUDAStream().synchronize();
    EXPECT_THAT(before, Each(0U));
    EXPECT_THAT(after, Each(kPoisoned));
  }
}

TEST_F(PoisonOnGpu, BlockOfAnotherStreamIsFilledWhenThatStreamIsDone) {
  const auto other = c10::cuda::getStreamFromPool();
  Tensor block = zeros_on_gpu();
  const void* const place = block.const_data_ptr();
  auto while_used = bits(), after = bits();
  c10::cuda::getCurrentCUDAStream().synchronize();
  {
    const c10::cuda::CUDAStreamGuard guard(other);
    c10::cuda::CUDACachingAllocator::recordStream(block.storage().data_ptr(), other);
    read(while_used, place);
    block.reset();
  }
  other.synchronize();
  EXPECT_THAT(while_used, Each(0U));
  const Tensor next =
      at::empty({kNumbers}, at::TensorOptions(at::kInt).device(at::kCUDA));  // ends waiting frees
  read(after, place);
  c10::cuda::getCurrentCUDAStream().synchronize();
  EXPECT_THAT(after, Each(kPoisoned));
}
}  // namespace
}  // namespace optrush::testing
