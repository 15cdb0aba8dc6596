// The upload of parameters to the GPU copies every byte of tensors of any size and type.
#include <ATen/Functions.h>

#include "on_gpu.h"
#include "params/upload.h"

namespace optrush::testing {
namespace {
class UploadToGpu : public OnGpu {};

TEST_F(UploadToGpu, EveryByteArrives) {
  PartTimes times;
  Upload upload(at::Device(at::kCUDA, 0), times);
  // Tensors smaller and larger than a buffer, whole and split pieces, and a buffer that is filled many times.
  for (const int64_t numbers : {0, 1, 8'388'607, 8'388'608, 8'388'609, 60'000'000}) {
    const Tensor host = at::arange(numbers, at::kInt);
    EXPECT_TRUE(at::equal(upload(host).cpu(), host)) << numbers;
  }
  const Tensor transposed = at::randn({3000, 5000}, at::kDouble).t();
  EXPECT_TRUE(at::equal(upload(transposed).cpu(), transposed));
  const Tensor number = at::full({}, 7, at::kBFloat16);
  EXPECT_TRUE(at::equal(upload(number).cpu(), number));
}

TEST_F(UploadToGpu, TheHostTensorMayBeFreedAtOnce) {
  PartTimes times;
  Upload upload(at::Device(at::kCUDA, 0), times);
  Tensors there;
  for (int64_t i = 0; i < 20; ++i) there.push_back(upload(at::full({5'000'000}, i, at::kInt)));
  for (int64_t i = 0; i < 20; ++i)
    EXPECT_TRUE(at::equal(there[static_cast<size_t>(i)].cpu(), at::full({5'000'000}, i, at::kInt))) << i;
}
}  // namespace
}  // namespace optrush::testing
