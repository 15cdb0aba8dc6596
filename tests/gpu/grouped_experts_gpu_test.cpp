// The grouped product of experts on a GPU against separate products in fp64. Some groups have no rows.
#include <ATen/Functions.h>

#include "grouped_experts/grouped_product.h"
#include "on_gpu.h"
#include "optrush/gpu_kernel.h"

namespace optrush::testing {
namespace {
class GroupedExpertsOnGpu : public OnGpu {};

TEST_F(GroupedExpertsOnGpu, GroupedProductEqualsSeparateProducts) {
  using namespace grouped_experts;
  const std::string gpu = gpu_architecture();
  if (std::stoi(gpu.substr(gpu.find('_') + 1)) < 90)
    GTEST_SKIP() << "the grouped kernel needs sm_90, not " << gpu;
  at::manual_seed(2);
  constexpr int64_t kWidth = 256, kOut = 384;
  const Tensor ends = at::tensor({130, 130, 131, 1000, 1000, 1024}, at::kInt);
  const Tensor x = at::randn({1024, kWidth}, at::kBFloat16), d_out = at::randn({1024, kOut}, at::kBFloat16);
  const Tensor matrices = at::randn({6, kOut, kWidth}, at::kBFloat16) / 16;
  const auto run = [&](Products products, const at::TensorOptions& options, const Tensor& its_ends) {
    const Differentiable op = make_grouped_product({.products = products, .clear_idle = gpu != "sm_90"});
    Tensors in = {x.to(options), its_ends};
    for (const Tensor& matrix : matrices.to(options).unbind(0)) in.push_back(matrix);
    const auto result = op->forward(in);
    Tensors all = op->backward(result.saved, {d_out.to(options)});
    all[1] = result.outputs[0];  // `ends` has no gradient
    return all;
  };
  const Tensors expected = run(Products::one_by_one, at::TensorOptions(at::kDouble), ends);
  const Tensors is =
      run(Products::grouped, at::TensorOptions(at::kBFloat16).device(at::kCUDA), ends.to(at::kCUDA));
  ASSERT_EQ(is.size(), expected.size());
  for (size_t i = 0; i < is.size(); ++i) {
    const Tensor apart = (is[i].cpu().to(at::kDouble) - expected[i]).abs();
    EXPECT_LE(apart.max().item<double>(), 1e-2 * expected[i].abs().max().item<double>() + 1e-12) << i;
  }
}
}  // namespace
}  // namespace optrush::testing
