// Lion: its formula, one number per parameter, and continuing from a saved state.
#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <cmath>

#include "lion_optimizer.h"
#include "optimizers.h"
#include "optrush/param.h"

namespace optrush::testing {
namespace {
struct OneShard {
  Param param{.name = "w", .shape = {6, 4}};
  Shard shard;
  explicit OneShard(at::ScalarType type, bool decay = true) {
    at::manual_seed(3);
    shard = {.data = at::randn({6, 4}, at::kDouble).to(type),
             .decay = decay,
             .segments = {{&param, Layout({6, 4}), 0}}};
  }
};

/// A rate that every type represents exactly.
Update rate(double lr) { return {.lr = lr, .lr_tensor = at::scalar_tensor(lr, at::kFloat)}; }

TEST(Lion, MatchesTheFormula) {
  constexpr double kLr = 0x1p-6, kDecay = 0.25;
  for (const bool decay : {true, false}) {
    OneShard one(at::kDouble, decay);
    const auto optimizer = lion::make_optimizer({0.8, 0.95, kDecay}, {&one.shard, 1});
    Tensor value = one.shard.data.clone(), mean = at::zeros_like(value);
    for (int step = 0; step < 5; ++step) {
      const Tensor gradient = at::cos(value * 3 + step);
      one.shard.grad = gradient;
      value = value * (decay ? 1 - kLr * kDecay : 1) - kLr * (0.8 * mean + 0.2 * gradient).sign();
      mean = 0.95 * mean + 0.05 * gradient;
      optimizer->step({&one.shard, 1}, rate(kLr));
      EXPECT_LT((one.shard.data - value).abs().max().item<double>(), 1e-14) << step;
    }
    const auto state = optimizer->state(one.shard);
    ASSERT_EQ(state.size(), 1U);
    EXPECT_LT((state[0].value - mean).abs().max().item<double>(), 1e-15);
  }
}

TEST(Lion, OverflowSkipsTheStepAndMissingGradientSkipsDecay) {
  for (const auto type : {at::kDouble, at::kFloat, at::kBFloat16}) {
    OneShard one(type);
    const auto optimizer = lion::make_optimizer({.weight_decay = 0.3}, {&one.shard, 1});
    one.shard.grad = at::cos(one.shard.data);
    optimizer->step({&one.shard, 1}, rate(0.125));
    const Tensor value = one.shard.data.clone(), mean = optimizer->state(one.shard)[0].value.clone();
    for (const double overflow : {static_cast<double>(INFINITY), std::nan("")}) {
      one.shard.grad = at::full_like(one.shard.data, overflow);
      Update skipped = rate(0.125);
      skipped.skip = at::ones({});
      optimizer->step({&one.shard, 1}, skipped);
      EXPECT_TRUE(at::equal(one.shard.data, value));
      EXPECT_TRUE(at::equal(optimizer->state(one.shard)[0].value, mean));
    }
    one.shard.grad = Tensor();
    optimizer->step({&one.shard, 1}, rate(0.125));
    EXPECT_TRUE(at::equal(one.shard.data, value));
    // A step that may be skipped but is not equals a plain step.
    OneShard other(type);
    const auto plain = lion::make_optimizer({.weight_decay = 0.3}, {&other.shard, 1});
    other.shard.grad = at::cos(other.shard.data);
    Update made = rate(0.125);
    made.skip = at::zeros({});
    plain->step({&other.shard, 1}, made);
    EXPECT_TRUE(at::equal(other.shard.data, value));
  }
}

TEST(Lion, KeepsOneNumberPerParameter) {
  const auto parts = [](const char* optimizer) {
    return Trained(nano_spec({use(optimizer)})).train()["memory"]["parts"];
  };
  const Json lion = parts("lion"), adamw = parts("fused_adamw");
  EXPECT_EQ(lion["optimizer_state"], lion["parameters"]);
  EXPECT_EQ(adamw["optimizer_state"].get<int64_t>(), 2 * lion["optimizer_state"].get<int64_t>());
}

/// Each parameter moves by the learning rate, or not at all without a gradient.
TEST(Lion, UsesTheLearningRateOfTheSpec) {
  RunSpec spec = nano_spec({use("lion")});
  spec.train.lr = 0x1p-6;
  spec.train.warmup = 0;
  spec.train.steps = 1;
  spec.train.weight_decay = 0;
  Trained trained(spec);
  std::map<std::string, Tensor> before;
  for (const Param* param : trained.session().params().all())
    before[param->name] = param->leaf.detach().clone();
  trained.train();
  int64_t moved = 0, all = 0;
  for (const Param* param : trained.session().params().all()) {
    const Tensor by = (param->leaf.detach() - before.at(param->name)).abs();
    EXPECT_TRUE(at::logical_or((by - 0x1p-6).abs() < 1e-6, by == 0).all().item<bool>()) << param->name;
    moved += by.ne(0).sum().item<int64_t>();
    all += param->numel();
  }
  EXPECT_GT(moved, all / 2);
}
}  // namespace
}  // namespace optrush::testing
