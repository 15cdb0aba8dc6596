// Schedule-Free AdamW: its three sequences, and validation and saving of the average.
#include "schedule_free_adamw.h"

#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "optimizers.h"
#include "optrush/param.h"
#include "support/error_of.h"
#include "support/saved_state.h"

namespace optrush::testing {
namespace {
double largest_distance(const Tensor& a, const Tensor& b) { return (a - b).abs().max().item<double>(); }

/// x, y and z as in algorithm 1 of the paper, with a warm-up.
TEST(ScheduleFree, MatchesTheAlgorithmOfThePaper) {
  TrainSpec spec;
  spec.beta1 = 0.8;
  spec.beta2 = 0.95;
  spec.weight_decay = 0.1;
  for (const double power : {0.0, 2.0}) {
    Param param{.name = "w", .shape = {6, 4}};
    at::manual_seed(3);
    Shard shard{
        .data = at::randn({6, 4}, at::kDouble), .decay = true, .segments = {{&param, Layout({6, 4}), 0}}};
    const auto optimizer = schedule_free::make_optimizer(spec, power, {&shard, 1});
    Tensor x = shard.data.clone(), y = x.clone(), z = x.clone(), second = at::zeros_like(x);
    double sum = 0;
    for (int step = 0; step < 6; ++step) {
      const double lr = 0.1 * std::min(1.0, (step + 1) / 3.0);
      const Tensor gradient = at::cos(3 * y + step);
      second = 0.95 * second + 0.05 * gradient * gradient;
      const Tensor root = (second / (1 - std::pow(0.95, step + 1))).sqrt() + spec.eps;
      z = z - lr * (gradient / root + 0.1 * y);
      const double weight = std::pow(lr, power);
      sum += weight;
      x = (1 - weight / sum) * x + weight / sum * z;
      y = 0.2 * z + 0.8 * x;
      shard.grad = gradient;
      optimizer->step({&shard, 1}, {.lr = lr});
      EXPECT_LT(largest_distance(shard.data, y), 1e-13) << step;
      optimizer->evaluates({&shard, 1}, true);
      EXPECT_LT(largest_distance(shard.data, x), 1e-13) << step;
      optimizer->evaluates({&shard, 1}, false);
      EXPECT_LT(largest_distance(shard.data, y), 1e-13) << step;
    }
    const Tensor before = shard.data.clone();
    shard.grad = at::full_like(shard.data, INFINITY);
    optimizer->step({&shard, 1}, {.lr = 0.1, .skip = at::ones({})});
    EXPECT_TRUE(at::equal(shard.data, before));
    EXPECT_LT(largest_distance(optimizer->state(shard)[0].value, z), 1e-13);
  }
}

RunSpec schedule_free_spec(std::vector<PluginUse> stack) {
  RunSpec spec = nano_spec(std::move(stack));
  spec.train.dtype = "fp64";
  spec.train.steps = 5;
  return spec;
}

TEST(ScheduleFree, SavesTheAverage) {
  for (const std::vector<PluginUse>& beside : {std::vector<PluginUse>{}, {use("optimizer_in_backward")}}) {
    auto stack = beside;
    stack.push_back(use("schedule_free"));
    Trained trained(schedule_free_spec(stack));
    trained.train();
    const double beta1 = trained.session().spec().train.beta1;
    const auto saved = saved_state(trained.session(), 6);
    double apart = 0;
    for (const Param* param : trained.session().params().all()) {
      const Tensor y = param->leaf.detach().flatten(), z = saved.at("optimizer/z/" + param->name);
      const Tensor x = saved.at("model/" + param->name);
      EXPECT_LT(largest_distance(x.flatten(), (y - (1 - beta1) * z.flatten()) / beta1), 1e-13) << param->name;
      apart = std::max(apart, largest_distance(x.flatten(), y));
    }
    EXPECT_GT(apart, 1e-4) << "the average differs from the model in training";
  }
}

TEST(ScheduleFree, ValidatesTheAverageWithoutChangingTraining) {
  RunSpec spec = schedule_free_spec({use("schedule_free")});
  spec.validate.every = 2;
  spec.validate.sequences = 4;
  std::map<std::string, Tensor> seen;
  std::unique_ptr<Trained> trained;
  trained = std::make_unique<Trained>(spec, [&](Recipe& recipe) {
    recipe.evaluation.wrap(Phase::measure, [&](auto inner) {
      return [&, inner](const Batch& batch) {
        for (const Param* param : trained->session().params().all())
          seen[param->name] = param->leaf.detach().clone();
        return inner(batch);
      };
    });
  });
  const Json with = trained->train();
  const auto saved = saved_state(trained->session(), 6);
  for (const auto& [name, value] : seen)
    EXPECT_TRUE(at::equal(value.flatten(), saved.at("model/" + name).flatten())) << name;
  EXPECT_FALSE(seen.empty());
  spec.validate.every = 0;
  EXPECT_EQ(losses(with), losses(Trained(spec).train()));
}

TEST(ScheduleFree, KeepsAsMuchAsAdamW) {
  const auto bytes = [](const char* optimizer) {
    return Trained(nano_spec({use(optimizer)})).train()["memory"]["parts"]["optimizer_state"].get<int64_t>();
  };
  EXPECT_EQ(bytes("schedule_free"), bytes("fused_adamw"));
}

TEST(ScheduleFree, RequiresMomentum) {
  RunSpec spec = nano_spec({use("schedule_free")});
  spec.train.beta1 = 0;
  EXPECT_THAT(error_of([&] { Trained run(spec); }), ::testing::HasSubstr("needs train.beta1 above 0"));
}
}  // namespace
}  // namespace optrush::testing
