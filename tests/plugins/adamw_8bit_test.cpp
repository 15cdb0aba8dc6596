// AdamW with moments in 8 bits: the codes, the update, the state, and a training.
#include <ATen/Functions.h>
#include <gmock/gmock.h>

#include <cmath>

#include "adamw_8bit/code.h"
#include "adamw_8bit/gpu/update.h"
#include "adamw_8bit/optimizer.h"
#include "optimizers.h"
#include "precision.h"
#include "support/cubin.h"
#include "support/error_of.h"
#include "support/folders.h"

namespace optrush::testing {
namespace {
using adamw_8bit::Code;
using adamw_8bit::encode;
using adamw_8bit::kBlock;
using ::testing::HasSubstr;

const PluginUse kAdamW8bit = {"adamw_8bit", Json::object()};

/// The nearest code, by a search over all 256. Of two that are equally near, the one nearer to 0.
int64_t nearest(const Code& code, float value) {
  const auto distance_to = [&](float other) {
    return std::pair(std::abs(double{other} - value), std::abs(other));
  };
  const auto found = std::ranges::min_element(code.values, {}, distance_to);
  return found - code.values.begin();
}

void expect_nearest(const Code& code, float value) {
  const int64_t expected = nearest(code, value);
  const bool kept_above_0 = !code.has_sign && expected == 0 && value > 0;
  ASSERT_EQ(encode(code, value), kept_above_0 ? 1 : expected) << std::hexfloat << value;
}

TEST(EightBitCode, MatchesThePublishedCode) {
  const Code &with_sign = adamw_8bit::signed_code(), &without = adamw_8bit::unsigned_code();
  for (const Code* code : {&with_sign, &without})
    EXPECT_TRUE(std::ranges::is_sorted(code->values, std::less_equal())) << "each number once";
  // The midpoints of 2^6 (2^7) equal parts of [0.1, 1], and so on down to 1 (2) of [1e-7, 1e-6].
  EXPECT_FLOAT_EQ(with_sign.values[255], 1);
  EXPECT_FLOAT_EQ(with_sign.values[254], 1 - 0.9F / 128);
  EXPECT_FLOAT_EQ(with_sign.values[128], 0.55e-6F);
  EXPECT_FLOAT_EQ(with_sign.values[127], 0);
  EXPECT_FLOAT_EQ(with_sign.values[126], -0.55e-6F);
  EXPECT_FLOAT_EQ(with_sign.values[0], -1 + 0.9F / 128);
  EXPECT_FLOAT_EQ(without.values[255], 1);
  EXPECT_FLOAT_EQ(without.values[254], 1 - 0.9F / 256);
  EXPECT_FLOAT_EQ(without.values[2], 0.775e-6F);
  EXPECT_FLOAT_EQ(without.values[1], 0.325e-6F);
  EXPECT_FLOAT_EQ(without.values[0], 0);
}

TEST(EightBitCode, NumbersRoundToTheNearestCode) {
  for (const Code* code : {&adamw_8bit::signed_code(), &adamw_8bit::unsigned_code()}) {
    for (int64_t i = 0; i < 256; ++i) EXPECT_EQ(encode(*code, code->values[static_cast<size_t>(i)]), i);
    // Around each border, float by float.
    for (size_t i = 0; i < 255; ++i) {
      float value = (code->values[i] + code->values[i + 1]) / 2;
      for (int steps = 0; steps < 3; ++steps) value = std::nextafter(value, -2.0F);
      for (int steps = 0; steps < 7; ++steps, value = std::nextafter(value, 2.0F))
        expect_nearest(*code, value);
    }
    const at::Tensor exponents = at::rand({20000}, at::kDouble) * 9 - 9;
    for (int64_t i = 0; i < exponents.numel(); ++i) {
      const auto value = static_cast<float>(std::pow(10.0, exponents[i].item<double>()));
      expect_nearest(*code, code->has_sign && i % 2 == 0 ? -value : value);
    }
  }
  EXPECT_EQ(encode(adamw_8bit::signed_code(), -1.0F), 0) << "there is no -1";
  EXPECT_EQ(encode(adamw_8bit::unsigned_code(), 1e-30F), 1) << "not 0";
  EXPECT_EQ(encode(adamw_8bit::unsigned_code(), 0), 0);
}

/// The moments of a shard as numbers.
Tensor decoded(Optimizer& optimizer, const Shard& shard, const std::string& name) {
  const Code& code = name == "exp_avg" ? adamw_8bit::signed_code() : adamw_8bit::unsigned_code();
  Tensor codes, scales;
  for (const auto& state : optimizer.state(shard)) {
    if (state.name == name) codes = state.value;
    if (state.name == name + "_scale") scales = state.value;
  }
  const Tensor values =
      at::from_blob(const_cast<float*>(code.values.data()), {256}).index_select(0, codes.to(at::kLong));
  return values * scales.repeat_interleave(kBlock).narrow(0, 0, codes.numel());
}

/// The value of a block's largest number after 8-bit encoding, for a moment in [0, 1].
Tensor through_8_bits(const Code& code, const Tensor& moment) {
  Tensor result = moment.flatten().clone();
  for (int64_t begin = 0; begin < result.numel(); begin += kBlock) {
    Tensor block = result.narrow(0, begin, std::min(kBlock, result.numel() - begin));
    const auto most = block.abs().max().item<float>();
    for (int64_t i = 0; i < block.numel() && most > 0; ++i)
      block[i] = code.values[encode(code, block[i].item<float>() / most)] * most;
  }
  return result.view_as(moment);
}

TEST(AdamW8bit, EqualsAdamWWithQuantizedMoments) {
  at::manual_seed(1);
  TrainSpec spec;
  spec.lr = 1e-2;
  spec.weight_decay = 0.1;
  Param matrix{.name = "matrix"}, vector{.name = "vector", .decay = false};
  std::vector<Shard> shards = {shard_of(matrix, at::randn({37, 53})), shard_of(vector, at::randn({19}))};
  Tensor value = shards[0].data.clone(), first = at::zeros({37, 53}), second = at::zeros({37, 53});
  Tensor vector_value = shards[1].data.clone(), vector_first = at::zeros({19}),
         vector_second = at::zeros({19});
  const auto optimizer = adamw_8bit::make_optimizer(spec, shards);
  Update update{.lr = spec.lr, .lr_tensor = at::full({}, spec.lr)};
  const auto plain = [&](Tensor& x, Tensor& m, Tensor& v, const Tensor& g, bool decay, int64_t step) {
    const auto t = static_cast<double>(step);
    m = m + (g - m) * (1 - spec.beta1);
    v = v * spec.beta2 + g * g * (1 - spec.beta2);
    x = x * (1 - spec.lr * (decay ? spec.weight_decay : 0)) -
        spec.lr * (m / (1 - std::pow(spec.beta1, t))) /
            ((v / (1 - std::pow(spec.beta2, t))).sqrt() + spec.eps);
  };
  for (int64_t step = 1; step <= 6; ++step) {
    // Rows of very different magnitude, with both types of gradients.
    const Tensor scale = at::logspace(-4, 1, 37).unsqueeze(1);
    shards[0].grad = (at::randn({37, 53}) * scale).to(step % 2 == 0 ? at::kFloat : at::kBFloat16);
    shards[1].grad = at::randn({19});
    plain(value, first, second, shards[0].grad.to(at::kFloat), true, step);
    plain(vector_value, vector_first, vector_second, shards[1].grad, false, step);
    optimizer->step(std::span(shards).first(1), update);
    optimizer->step(std::span(shards).last(1), update);
    // A sum of rounded numbers may cross a border. It is then one code apart, at most 1 % of the number here.
    EXPECT_LT(distance(shards[0].data, value), 1e-4) << step;
    first = through_8_bits(adamw_8bit::signed_code(), first);
    second = through_8_bits(adamw_8bit::unsigned_code(), second);
    EXPECT_LT(distance(decoded(*optimizer, shards[0], "exp_avg").view({37, 53}), first), 1e-3) << step;
    EXPECT_LT(distance(decoded(*optimizer, shards[0], "exp_avg_sq").view({37, 53}), second), 1e-3) << step;
  }
  EXPECT_LT(distance(shards[1].data, vector_value), 1e-5) << "a vector's moments are fp32";

  const Tensor before = shards[0].data.clone();
  update.skip = at::ones({});
  optimizer->step(shards, update);
  EXPECT_TRUE(at::equal(shards[0].data, before));
  EXPECT_EQ(optimizer->state(shards[0])[2].value.item<float>(), 6) << "a skipped step does not count";
}

TEST(AdamW8bit, SmallSecondMomentIsNotRoundedToZero) {
  TrainSpec spec;
  spec.lr = 1e-3;
  spec.weight_decay = 0;
  Param param{.name = "w"};
  std::vector<Shard> shards = {shard_of(param, at::zeros({1, kBlock}))};
  const auto optimizer = adamw_8bit::make_optimizer(spec, shards);
  // One gradient is 10,000 times as large as the others. Its square is 1e8 times as large, which exceeds the
  // decades of the code.
  shards[0].grad = at::full({1, kBlock}, 1e-4);
  shards[0].grad[0][0] = 1;
  for (int step = 0; step < 20; ++step)
    optimizer->step(shards, {.lr = spec.lr, .lr_tensor = at::full({}, spec.lr)});
  EXPECT_LE(shards[0].data.abs().max().item<float>(), 20 * spec.lr * 1.01);
}

TEST(AdamW8bit, TakesTwoBytesPerParameterAndEightPerBlock) {
  Trained trained(nano_spec({kAdamW8bit}));
  int64_t bytes = 0;
  for (const Param* param : trained.session().params().all()) {
    const int64_t count = param->numel(), blocks = (count + kBlock - 1) / kBlock;
    bytes += param->shape.size() > 1 ? 2 * count + 8 * blocks : 8 * count;
    EXPECT_EQ(param->block, param->shape.size() > 1 ? kBlock : 1) << param->name;
  }
  EXPECT_EQ(trained.train()["memory"]["parts"]["optimizer_state"], bytes);
}

TEST(AdamW8bit, TrainsLikeAdamW) {
  const Json wide = Trained(ten_steps({})).train(), narrow = Trained(ten_steps({kAdamW8bit})).train();
  EXPECT_LT(apart(narrow, wide), kTolerance);
  EXPECT_NE(losses(narrow), losses(wide));
}

/// Data in bf16 is the fp32 update, rounded to one of two neighbours.
TEST(AdamW8bit, Bf16IsRoundedToANeighbour) {
  at::manual_seed(1);
  TrainSpec spec;
  spec.lr = 1e-2;
  Param low{.name = "low"}, full{.name = "full"};
  const Tensor start = at::randn({37, 53}).to(at::kBFloat16);
  std::vector<Shard> of_low = {shard_of(low, start.clone())},
                     of_full = {shard_of(full, start.to(at::kFloat))};
  const auto narrow = adamw_8bit::make_optimizer(spec, of_low),
             wide = adamw_8bit::make_optimizer(spec, of_full);
  for (int64_t step = 1; step <= 4; ++step) {
    of_full[0].data.copy_(of_low[0].data);  // the same start, so that the test compares one update
    of_low[0].grad = of_full[0].grad = at::randn({37, 53}).to(step % 2 == 0 ? at::kFloat : at::kBFloat16);
    narrow->step(of_low, {.lr = spec.lr, .lr_tensor = at::full({}, spec.lr)});
    wide->step(of_full, {.lr = spec.lr, .lr_tensor = at::full({}, spec.lr)});
    const Tensor exact = of_full[0].data, got = of_low[0].data.to(at::kFloat);
    // bf16 has 8 bits, so neighbours are at most 2^-7 of a number apart.
    EXPECT_TRUE((got - exact).abs().le(exact.abs() / 128).all().item<bool>()) << step;
    const Tensor nearest = exact.to(at::kBFloat16).to(at::kFloat);
    const auto share = got.ne(nearest).to(at::kFloat).mean().item<double>();
    EXPECT_GT(share, 0.2) << "a quarter goes to the farther neighbour";
    EXPECT_LT(share, 0.3);
  }
}

/// Rounding to nearest would lose a step of 2^-12 of the number. Here the steps add up.
TEST(AdamW8bit, SmallUpdatesOfBf16AddUp) {
  TrainSpec spec;
  spec.lr = 1.0 / 4096;
  spec.weight_decay = 0;
  Param param{.name = "w"};
  std::vector<Shard> shards = {shard_of(param, at::ones({64, kBlock}, at::kBFloat16))};
  const auto optimizer = adamw_8bit::make_optimizer(spec, shards);
  shards[0].grad = at::ones({64, kBlock});
  constexpr int kSteps = 64;
  for (int step = 0; step < kSteps; ++step)
    optimizer->step(shards, {.lr = spec.lr, .lr_tensor = at::full({}, spec.lr)});
  // The steps of each number are drawn independently. The mean of many numbers moves by the sum of the
  // updates.
  const double moved = 1 - shards[0].data.to(at::kDouble).mean().item<double>();
  EXPECT_NEAR(moved, kSteps * spec.lr, 0.02 * kSteps * spec.lr);
}

/// Random bits depend on the seed, the shard, the step and the position, and not on threads or other work.
TEST(AdamW8bit, ReplicasRoundIdentically) {
  const auto trained = [](uint64_t seed) {
    TrainSpec spec;
    spec.lr = 1e-3;
    spec.seed = seed;
    Param one{.name = "one"}, two{.name = "two"};
    std::vector<Shard> shards = {shard_of(one, at::ones({300, kBlock}, at::kBFloat16)),
                                 shard_of(two, at::ones({300, kBlock}, at::kBFloat16))};
    const auto optimizer = adamw_8bit::make_optimizer(spec, shards);
    for (Shard& shard : shards) shard.grad = at::ones({300, kBlock});
    for (int step = 0; step < 3; ++step)
      optimizer->step(shards, {.lr = spec.lr, .lr_tensor = at::full({}, spec.lr)});
    return std::pair(shards[0].data.clone(), shards[1].data.clone());
  };
  const auto first = trained(1), again = trained(1), other = trained(2);
  EXPECT_TRUE(at::equal(first.first, again.first) && at::equal(first.second, again.second));
  EXPECT_FALSE(at::equal(first.first, first.second)) << "shards have independent random bits";
  EXPECT_FALSE(at::equal(first.first, other.first));
}

TEST(AdamW8bit, Bf16ParametersTrainLikeFp32) {
  const auto run = [](Stack stack, const std::string& dtype) {
    RunSpec spec = ten_steps(std::move(stack));
    spec.train.dtype = dtype;
    return Trained(spec);
  };
  Trained low = run({kAdamW8bit}, "bf16");
  for (const Param* param : low.session().params().all())
    EXPECT_EQ(param->dtype, param->shape.size() > 1 ? at::kBFloat16 : at::kFloat) << param->name;
  EXPECT_LT(apart(low.train(), run({}, "fp32").train()), kTolerance);
}

TEST(AdamW8bit, IncompatiblePluginsAreNamed) {
  const auto message = [](Stack stack, const std::string& dtype = "fp32") {
    RunSpec spec = nano_spec(std::move(stack));
    spec.train.dtype = dtype;
    return error_of([&] { Trained trained(spec); });
  };
  EXPECT_THAT(message({kAdamW8bit, {"fused_adamw", Json::object()}}), HasSubstr("' conflict"));
  EXPECT_THAT(message({kAdamW8bit, {"bf16_weights", Json::object()}}), HasSubstr("' conflict"));
  EXPECT_THAT(message({kAdamW8bit}, "fp64"), HasSubstr("set train.dtype to fp32 or bf16"));
}

TEST(AdamW8bit, GpuKernelsCompileWithoutSpillingRegisters) {
  setenv("OPTRUSH_CACHE", (build_folder() + "/tests/cache").c_str(), 1);
  std::vector<std::string> kernels = {"prepare"};
  for (const auto gradient : {fused::Type::bf16, fused::Type::fp32})
    for (const auto data : {fused::Type::bf16, fused::Type::fp32})
      for (const bool packed : {true, false})
        kernels.push_back(adamw_8bit::gpu::update_name({gradient, data}, packed));
  for (const char* architecture : {"sm_80", "sm_90", "sm_100"})
    for (const auto& kernel : kernels) try {
        const auto compiled = compile_gpu_kernel(adamw_8bit::gpu::program().source(), kernel, architecture);
        const KernelResources resources = resources_of(compiled.image);
        if (kernel != "prepare") {
          EXPECT_EQ(resources.local_bytes, 0) << kernel << " " << architecture;
        }
      } catch (const Error& error) {
        if (std::string(error.what()).find("was not found") != std::string::npos)
          GTEST_SKIP() << error.what();
        ADD_FAILURE() << error.what();
      }
  unsetenv("OPTRUSH_CACHE");
}
}  // namespace
}  // namespace optrush::testing
