// The fused GPU kernels, including the loss, against the plain forms.
#include "kernel_parts/largest.h"
#include "on_gpu.h"
#include "plugins/fused_cases.h"
#include "plugins/fused_loss_cases.h"

namespace optrush::testing {
namespace {
class FusedKernelsOnGpu : public OnGpu {};

TEST_F(FusedKernelsOnGpu, EqualThePlainFormInEachType) {
  for (const Case& c : cases())
    for (const auto& [type, tolerance] : kTypes)
      for (const int64_t width :
           {int64_t{64}, int64_t{67}, int64_t{1}, int64_t{4096}, int64_t{5000}, int64_t{16384}}) {
        SCOPED_TRACE(c.name + ", " + c10::toString(type) + ", width " + std::to_string(width));
        expect_like_plain(c, inputs(c, type, width), tolerance * 4, at::kCUDA);
      }
}

TEST_F(FusedKernelsOnGpu, AcceptEmptyBatchesAndAnyStrides) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    expect_like_plain(c, inputs(c, at::kDouble, 24, /*batch=*/0), 1e-12, at::kCUDA);
    Tensors in = inputs(c, at::kDouble, 24);
    if (c.name != "position")
      for (Tensor& each : in)
        if (each.dim() == 3) each = each.transpose(0, 1).contiguous().transpose(0, 1);
    expect_like_plain(c, in, 1e-12, at::kCUDA);
  }
}

TEST_F(FusedKernelsOnGpu, WeightGradientIsBitReproducible) {
  const auto options = at::TensorOptions(at::kBFloat16).device(at::kCUDA);
  const Tensor x = at::randn({8192, 1024}, options), g = at::randn({8192, 1024}, options);
  const Tensor weight = at::randn({1024}, options.dtype(at::kFloat));
  const Differentiable pair = fused::norm(kEps);
  const auto gradient = [&] { return pair->backward(pair->forward({x, weight}).saved, {Tensor(), g})[1]; };
  const Tensor first = gradient();
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(at::equal(gradient(), first));
}

TEST_F(FusedKernelsOnGpu, NotedLargestValuesMatchTheWrittenTensor) {
  const auto expect_noted = [](const Tensor& written) {
    const Tensor parts = fused::noted_largest(written);
    ASSERT_TRUE(parts.defined());
    EXPECT_EQ(parts.max().item<float>(), written.abs().max().item<float>());
  };
  for (const auto type : {at::kFloat, at::kBFloat16, at::kHalf})
    for (const int64_t width : {64, 67, 4096}) {
      SCOPED_TRACE(std::string(c10::toString(type)) + ", width " + std::to_string(width));
      const auto options = at::TensorOptions(type).device(at::kCUDA);
      const auto some = [&] { return at::randn({700, width}, options); };
      const Tensor weight = at::randn({width}, options.dtype(at::kFloat));
      const Differentiable norm = fused::norm(kEps, {}, fused::Largest::noted),
                           add_norm = fused::add_norm(kEps, {}, fused::Largest::noted);
      const auto normed = norm->forward({some(), weight});
      expect_noted(normed.outputs[1]);
      expect_noted(norm->backward(normed.saved, {Tensor(), some()})[0]);
      const auto added = add_norm->forward({some(), some(), weight});
      expect_noted(added.outputs[1]);
      expect_noted(add_norm->backward(added.saved, {some(), some()})[1]);
      for (const Differentiable& glu :
           {fused::swiglu(fused::Largest::noted), fused::geglu(fused::Largest::noted)}) {
        const auto out = glu->forward({some(), some()});
        expect_noted(out.outputs[0]);
        for (const Tensor& gradient : glu->backward(out.saved, {some()})) expect_noted(gradient);
      }
    }
}

TEST_F(FusedKernelsOnGpu, LowPrecisionDeltaAddsToAnFp32Stream) {
  const Case c = cases()[1];
  const auto options = at::TensorOptions(at::kFloat).device(at::kCUDA);
  const Tensors in = {at::randn({2, 3, 64}, options), at::randn({2, 3, 64}, options.dtype(at::kBFloat16)),
                      at::randn({64}, options)};
  const auto got = outcome([&](const Tensors& given) { return call(c.pair, given); }, in, 3);
  const auto expected = outcome(c.plain, in, 3);
  for (size_t i = 0; i < 2; ++i) EXPECT_TRUE(at::allclose(got.outputs[i], expected.outputs[i], 1e-4, 1e-5));
  EXPECT_EQ(got.gradients[1].scalar_type(), at::kBFloat16);
  for (size_t i = 0; i < 3; ++i)
    EXPECT_TRUE(
        at::allclose(got.gradients[i].to(at::kFloat), expected.gradients[i].to(at::kFloat), 1e-2, 1e-2));
}

TEST_F(FusedKernelsOnGpu, FastSigmoidIsWithinItsErrorBound) {
  const Tensor gate = at::linspace(-86, 86, 100001, at::kFloat), one = at::ones_like(gate);
  const Tensor got = call(fused::swiglu(), {gate.cuda(), one.cuda()})[0].cpu().to(at::kDouble);
  const Tensor exact = at::silu(gate.to(at::kDouble));
  const Tensor off = ((got - exact) / exact).abs();
  EXPECT_LE(off.masked_select(gate.abs() < 10).nan_to_num().max().item<double>(), 2e-6);
  EXPECT_LE(off.nan_to_num().max().item<double>(), 1e-5);
}

TEST_F(FusedKernelsOnGpu, LossEqualsThePlainFormInEachTypeAtAnyVocabulary) {
  for (const auto& [type, tolerance] : kLossTypes)
    for (const int64_t vocabulary : {2, 64, 131, 5001, 40961})
      for (const int64_t chunk : {0, 4})
        for (const double soft_cap : {0.0, 1.5})
          expect_plain_loss({type, tolerance * (type == at::kDouble ? 10 : 2), vocabulary, chunk, soft_cap},
                            at::kCUDA);
}

TEST_F(FusedKernelsOnGpu, LossIsBitReproducibleAndEqualInChunks) {
  const auto options = at::TensorOptions(at::kBFloat16).device(at::kCUDA);
  const Tensor x = at::randn({4096, 256}, options), weight = at::randn({128256, 256}, options);
  const Tensor labels = at::randint(128256, {4096}, options.dtype(at::kLong));
  const auto run = [&](int64_t chunk) {
    return make_loss_function({.chunk = chunk})->forward({x, labels, weight});
  };
  const auto whole = run(0), parts = run(1024);
  for (int i = 0; i < 3; ++i) {
    const auto again = run(0);
    EXPECT_TRUE(at::equal(again.outputs[0], whole.outputs[0]));
    for (size_t j = 0; j < 2; ++j) EXPECT_TRUE(at::equal(again.saved[j], whole.saved[j]));
  }
  EXPECT_NEAR(parts.outputs[0].item<double>(), whole.outputs[0].item<double>(),
              1e-5 * whole.outputs[0].item<double>());
  for (size_t j = 0; j < 2; ++j) EXPECT_LE(apart(parts.saved[j], whole.saved[j].cpu()), 1.0 / 64);
}
}  // namespace
}  // namespace optrush::testing
