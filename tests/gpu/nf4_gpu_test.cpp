// Matrices in 4 bits on a GPU are encoded and decoded as on a CPU.
#include <ATen/Functions.h>

#include "nf4/codec.h"
#include "on_gpu.h"

namespace optrush::testing {
namespace {
class Nf4OnGpu : public OnGpu {};

TEST_F(Nf4OnGpu, EncodesAndDecodesLikeCpu) {
  at::manual_seed(1);
  for (const bool twice : {false, true})
    for (const int64_t count : {1L, 1001L, 100'003L, 4096L * 512}) {
      const nf4::Nf4Codec codec(twice);
      const Tensor value = at::randn({count});
      const Tensors stored = codec.encode(value);
      Tensors on_gpu;
      for (const Tensor& field : stored) on_gpu.push_back(field.to(at::kCUDA));
      for (const auto type : {at::kFloat, at::kBFloat16, at::kHalf})
        EXPECT_TRUE(
            at::equal(codec.decode_as(type, on_gpu, {count}).cpu(), codec.decode_as(type, stored, {count})))
            << count << " " << type;
      // A number halfway between two codes may get either: the rounding of a scale decides, and a GPU sums
      // its mean in another order.
      const Tensor here = codec.decode(stored, {count});
      const Tensor apart = (codec.decode(codec.encode(value.to(at::kCUDA)), {count}).cpu() - here).abs();
      EXPECT_LT(apart.gt(1e-5 * here.abs().max()).to(at::kDouble).mean().item<double>(), 1e-3);
    }
}
}  // namespace
}  // namespace optrush::testing
