// The fused kernels against the plain forms: values, every gradient, saved bytes, and the plugin in training.
#include <ATen/Functions.h>
#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <tuple>

#include "fused_cases.h"
#include "measure/saved_tensors.h"
#include "model/rotary.h"
#include "support/error_of.h"
#include "support/gradcheck.h"
#include "support/instruction_set.h"
#include "support/training.h"

namespace optrush::testing {
namespace {
TEST(FusedKernels, EqualThePlainFormInEachType) {
  for (const Case& c : cases())
    for (const auto& [type, tolerance] : kTypes)
      for (const int64_t width : kWidths) {
        SCOPED_TRACE(c.name + ", " + c10::toString(type) + ", width " + std::to_string(width));
        expect_like_plain(c, inputs(c, type, width), tolerance);
      }
}

TEST(FusedKernels, EqualThePlainFormWithEachInstructionSetOfThisMachine) {
  for (int64_t rest = hwy::SupportedTargets(); rest != 0; rest &= rest - 1) {
    const InstructionSet chosen(rest & -rest);
    SCOPED_TRACE(hwy::TargetName(rest & -rest));
    for (const Case& c : cases())
      for (const auto& [type, tolerance] : kTypes)
        for (const int64_t width : {64, 67}) expect_like_plain(c, inputs(c, type, width), tolerance);
  }
}

TEST(FusedKernels, PassGradcheck) {
  for (const Case& c : cases())
    for (const int64_t width : {5, 16}) {
      SCOPED_TRACE(c.name + " of width " + std::to_string(width));
      Tensors in = inputs(c, at::kDouble, width);
      for (size_t i = 0; i < c.derived; ++i) in[i].requires_grad_();
      gradcheck([&](const Tensors& given) { return call(c.pair, given); }, in);
    }
}

TEST(FusedKernels, AcceptEmptyBatchesAndAnyStrides) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    expect_like_plain(c, inputs(c, at::kDouble, 24, /*batch=*/0), 1e-12);
    Tensors strided = inputs(c, at::kDouble, 24);
    for (Tensor& each : strided) {
      if (each.dim() < 3) continue;
      const Tensor padded = at::empty_like(each.repeat_interleave(2, -1));
      each = padded.slice(-1, 0, padded.size(-1), 2).copy_(each);
    }
    ASSERT_FALSE(strided[0].is_contiguous());
    expect_like_plain(c, strided, 1e-12);
  }
}

TEST(FusedKernels, TablesMayServeTheWholeBatch) {
  const Case c = cases()[2];
  Tensors in = inputs(c, at::kDouble, 16);
  in[2] = in[2].slice(0, 0, 1), in[3] = in[3].slice(0, 0, 1);
  expect_like_plain(c, in, 1e-12);
  // The halves of the tables differ, so the backward is the transpose and not a rotation by the negative
  // angle.
  in[2] = random({2, 1, 3, 16}, at::kDouble), in[3] = random({2, 1, 3, 16}, at::kDouble);
  expect_like_plain(c, in, 1e-12);
}

/// The largest errors of q kᵀ over 256 positions up to `position`, for heads in bf16 that are rotated by
/// tables in `type`.
double score_error(int64_t position, at::ScalarType type) {
  constexpr int64_t kPositions = 256, kWidth = 64;
  at::manual_seed(5);
  const Tensor q = random({1, 4, kPositions, kWidth}, at::kBFloat16);
  const Tensor k = random({1, 4, kPositions, kWidth}, at::kBFloat16);
  const LlamaSpec llama{.dim = kWidth, .n_heads = 1, .rope_theta = 500000};
  Batch batch;
  batch.positions = at::arange(position - kPositions, position, at::kLong).unsqueeze(0);
  std::tie(batch.cos, batch.sin) = rotary(batch.positions, rotary_table(llama), at::kDouble);
  const auto scores = [](const Tensors& rotated) {
    return at::matmul(rotated[0].to(at::kDouble), rotated[1].to(at::kDouble).transpose(-2, -1)) / 8;
  };
  const Tensor exact = scores(default_position({q.to(at::kDouble), k.to(at::kDouble), batch.cos, batch.sin}));
  const Tensor got = scores(
      call(fused::position(), {q, k, batch.cos.to(type).to(at::kFloat), batch.sin.to(type).to(at::kFloat)}));
  return (got - exact).square().mean().sqrt().item<double>();
}

TEST(FusedKernels, Fp32TablesAreMoreAccurateAtEveryPosition) {
  const double near = score_error(512, at::kFloat);
  for (const int64_t position : {512, 131072}) {
    const double wide = score_error(position, at::kFloat), low = score_error(position, at::kBFloat16);
    EXPECT_LT(wide, 1.5 * near)
        << position;  // angles are computed in fp64, so distance costs little accuracy
    EXPECT_GT(low, 1.15 * wide) << position;
  }
}

TEST(FusedKernels, LowPrecisionDeltaAddsToAnFp32Stream) {
  const Case c = cases()[1];
  for (const auto low : {at::kBFloat16, at::kHalf}) {
    Tensors in = inputs(c, at::kFloat, 67);
    in[1] = in[1].to(low);
    const auto got = outcome([&](const Tensors& given) { return call(c.pair, given); }, in, 3);
    const auto expected = outcome(c.plain, in, 3);
    expect_near(got.outputs, expected.outputs, 2e-6, "output");
    expect_near({got.gradients[0], got.gradients[2]}, {expected.gradients[0], expected.gradients[2]}, 4e-6,
                "gradient");
    expect_near({got.gradients[1]}, {expected.gradients[1]}, 1.0 / 128, "gradient of delta");
  }
}

TEST(FusedKernels, ExtremesOfTheSigmoidStayFinite) {
  const Tensor gate = at::tensor({-1e4, -200.0, -90.0, -50.0, 0.0, 50.0, 200.0, 1e4}, at::kFloat);
  const Case c = cases()[3];
  expect_like_plain(c, {gate, at::ones_like(gate)}, 2e-6);
  expect_like_plain(c, {gate.to(at::kDouble), at::ones_like(gate, at::kDouble)}, 1e-12);
  const Case geglu = cases()[4];
  expect_like_plain(geglu, {gate, at::ones_like(gate)}, 2e-6);
  // The cube of this number overflows fp32. The slope is 0 or 1.
  const Tensor far = at::tensor({-1e15, 1e15}, at::kFloat).requires_grad_();
  const Tensor out = call(geglu.pair, {far, at::ones_like(far)})[0];
  out.sum().backward();
  EXPECT_TRUE(at::allclose(out, at::tensor({0.0, 1e15}, at::kFloat), 1e-6, 1e-12));
  EXPECT_TRUE(at::allclose(far.grad(), at::tensor({0.0, 1.0}, at::kFloat), 1e-6, 1e-12));
}

TEST(FusedKernels, NaNStaysNaN) {
  for (const auto type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    const Tensor x = at::full({2, 40}, std::nan(""), at::kFloat).to(type), one = at::ones_like(x);
    EXPECT_TRUE(call(fused::swiglu(), {x, one})[0].isnan().all().item<bool>());
    EXPECT_TRUE(call(fused::geglu(), {x, one})[0].isnan().all().item<bool>());
    EXPECT_TRUE(call(fused::norm(kEps), {x, one[0]})[1].isnan().all().item<bool>());
  }
}

TEST(FusedKernels, WeightGradientIsBitReproducibleAndCloseToDouble) {
  const int64_t rows = 20000, width = 48;
  const Tensor x = random({rows, width}, at::kFloat) + 1, weight = random({width}, at::kFloat);
  const Tensor g = random({rows, width}, at::kFloat) + 0.1;
  const Differentiable pair = fused::norm(kEps);
  const auto gradient = [&] { return pair->backward(pair->forward({x, weight}).saved, {Tensor(), g})[1]; };
  const Tensor first = gradient();
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(at::equal(gradient(), first));
  const Tensor wide = x.to(at::kDouble);
  const Tensor exact = (g * wide * (wide.pow(2).mean(-1, true) + kEps).rsqrt()).sum(0);
  EXPECT_LE(((first - exact).abs() / exact.abs().max()).max().item<double>(), 2e-7);
}

TEST(FusedKernels, LargeResultsBypassTheCacheAndAreEqual) {
  // Large enough for streaming stores. Rows start at cache lines.
  const Tensor gate = at::randn({5000, 4096}), up = at::randn({5000, 4096});
  const Tensor out = call(fused::swiglu(), {gate, up})[0];
  EXPECT_TRUE(at::allclose(out, plain::swiglu(gate, up), 1e-5, 1e-6));
  const Tensor weight = at::rand({4096});
  const Tensors sums = call(fused::add_norm(kEps), {gate, up, weight});
  EXPECT_TRUE(at::equal(sums[0], gate + up));
  EXPECT_TRUE(at::allclose(sums[1], plain::norm(sums[0], weight, {}, {.eps = kEps}), 1e-5, 1e-6));
}

int64_t saved_bytes(const Function& function, Tensors in, size_t derived) {
  for (size_t i = 0; i < derived; ++i) in[i].requires_grad_();
  SavedTensorCount count(in);
  const Tensors out = function(in);
  count.stop();
  return count.peak_bytes();
}

TEST(FusedKernels, SaveNoMoreThanThePlainForms) {
  for (const Case& c : cases())
    for (const auto type : {at::kFloat, at::kBFloat16}) {
      SCOPED_TRACE(c.name + ", " + c10::toString(type));
      const Tensors in = inputs(c, type, 64);
      const int64_t fused =
          saved_bytes([&](const Tensors& given) { return call(c.pair, given); }, in, c.derived);
      EXPECT_LE(fused, saved_bytes(c.plain, in, c.derived));
      const int64_t rows = 2 * 3, sum = rows * 64 * static_cast<int64_t>(c10::elementSize(type));
      // In addition to the inputs: one number per row, and the new residual stream.
      const int64_t expected = c.name == "norm" ? rows * 4 : c.name == "add_norm" ? rows * 4 + sum : 0;
      EXPECT_EQ(fused, expected);
    }
}

TEST(FusedKernels, AnotherTypeOrDeviceIsRefusedByName) {
  const Tensor whole = at::ones({2, 4}, at::kInt);
  EXPECT_NE(error_of([&] {
              fused::swiglu()->forward({whole, whole});
            }).find("the fused kernel of swiglu does not support the type Int"),
            std::string::npos);
  const Tensor nowhere = at::ones({2, 4}, at::kMeta);
  EXPECT_NE(error_of([&] {
              fused::swiglu()->forward({nowhere, nowhere});
            }).find("not on meta"),
            std::string::npos);
  const Tensor odd = at::ones({1, 1, 2, 5});
  EXPECT_NE(error_of([&] {
              fused::position()->forward({odd, odd, odd, odd});
            }).find("even head width"),
            std::string::npos);
}

PluginUse fused_with(Json options = Json::object()) { return {"fused_kernels", std::move(options)}; }

RunSpec fp64_spec(std::vector<PluginUse> plugins, const Json& model = Json::object()) {
  RunSpec spec = nano_spec(std::move(plugins));
  spec.train.dtype = "fp64";
  spec.model.update(model);
  return spec;
}

TEST(FusedKernelsPlugin, TrainsLikeThePlainFormInDoubleKernelByKernel) {
  const auto expected = losses(Trained(fp64_spec({})).train());
  const std::vector<Json> selections = {
      {"norm"}, {"add_norm"}, {"position"}, {"swiglu"}, {"norm", "add_norm", "position", "swiglu", "geglu"}};
  for (const Json& kernels : selections) {
    SCOPED_TRACE(kernels.dump());
    const auto got = losses(Trained(fp64_spec({fused_with({{"kernels", kernels}})})).train());
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-12);
  }
}

TEST(FusedKernelsPlugin, FusesTanhGegluButNotExactGeglu) {
  for (const char* activation : {"gelu_tanh", "gelu"}) {
    const auto with = [&](std::vector<PluginUse> plugins) {
      return fp64_spec(std::move(plugins), {{"activation", activation}});
    };
    const auto expected = losses(Trained(with({})).train());
    const auto got = losses(Trained(with({fused_with()})).train());
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-12);
  }
  EXPECT_NE(error_of([] {
              Trained(fp64_spec({fused_with({{"kernels", {"geglu"}}})})).train();
            }).find("nothing to fuse"),
            std::string::npos);
}

TEST(FusedKernelsPlugin, ComposesWithRecomputationAndAdapters) {
  const std::vector<PluginUse> below = {{"activation_checkpointing", Json::object()},
                                        {"lora", {{"rank", 4}}}};
  auto stack = below;
  stack.push_back(fused_with());
  const auto expected = losses(Trained(fp64_spec(below)).train());
  const auto got = losses(Trained(fp64_spec(stack)).train());
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-12);
}

TEST(FusedKernelsPlugin, KeepsLessForTheBackward) {
  const auto activations = [](std::vector<PluginUse> stack) {
    return Trained(nano_spec(std::move(stack))).train()["memory"]["parts"]["activations"].get<int64_t>();
  };
  EXPECT_LT(activations({fused_with()}), activations({}));
  const PluginUse mixed = {"mixed_precision", Json::object()};
  const int64_t plain = activations({mixed}), fused = activations({mixed, fused_with()});
  EXPECT_LT(fused, plain);
  EXPECT_LT(fused, activations({mixed, fused_with({{"autocast_output", false}})}));
}

TEST(FusedKernelsPlugin, LowPrecisionOutputsUnderAutocastTrainTheSame) {
  const PluginUse mixed = {"mixed_precision", Json::object()};
  const auto expected = losses(Trained(nano_spec({mixed})).train());
  for (const bool low : {true, false}) {
    const auto got = losses(Trained(nano_spec({mixed, fused_with({{"autocast_output", low}})})).train());
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(got[i], expected[i], 5e-3 * expected[i]);
  }
}

TEST(FusedKernelsPlugin, LayerNormStaysPlainAndNothingToFuseIsAnError) {
  for (const char* kind : {"layernorm", "layernorm_without_parameters"}) {
    const Json model = {{"norm", kind}};
    const auto expected = losses(Trained(fp64_spec({}, model)).train());
    const auto got = losses(Trained(fp64_spec({fused_with()}, model)).train());
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-12);
    EXPECT_NE(error_of([&] {
                Trained(fp64_spec({fused_with({{"kernels", {"norm", "add_norm"}}})}, model));
              }).find("nothing to fuse"),
              std::string::npos);
  }
  EXPECT_NE(error_of([] {
              Trained(nano_spec({fused_with({{"kernels", Json::array()}})}));
            }).find("'kernels' is empty"),
            std::string::npos);
}
}  // namespace
}  // namespace optrush::testing
