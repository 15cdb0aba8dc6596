// Adafactor against torch.optim.Adafactor, and its state.
#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "adafactor_optimizer.h"
#include "io/safetensors.h"
#include "optimizers.h"
#include "optrush/param.h"
#include "support/error_of.h"
#include "support/folders.h"

namespace optrush::testing {
namespace {
Tensor state_named(Optimizer& optimizer, const Shard& shard, const std::string& name) {
  for (const auto& state : optimizer.state(shard))
    if (state.name == name) return state.value;
  throw std::runtime_error("no state " + name);
}

/// tests/parity/torch_adafactor.py has the options.
TEST(Adafactor, MatchesTorch) {
  const SafetensorsFile file(tests_folder() + "/fixtures/adafactor_torch.safetensors");
  const std::map<std::string, std::pair<adafactor::Settings, double>> cases = {
      {"default", {{.eps1 = 0x1p-52}, 0.01}},
      {"options", {{.decay = -0.5, .eps1 = 1e-4, .eps2 = 0.02, .threshold = 1.5, .weight_decay = 0.1}, 0.7}}};
  for (const auto& [name, settings] : cases) {
    SCOPED_TRACE(name);
    const auto saved = [&, prefix = name](const std::string& of) { return file.read(prefix + "." + of); };
    Param matrix{.name = "matrix"}, vector{.name = "vector"};
    std::vector<Shard> shards = {shard_of(matrix, saved("matrix.start")),
                                 shard_of(vector, saved("vector.start"))};
    const auto optimizer = adafactor::make_optimizer(settings.first, shards, {});
    for (int step = 0; step < 4; ++step) {
      const std::string number = std::to_string(step);
      shards[0].grad = saved("matrix.gradient." + number);
      shards[1].grad = saved("vector.gradient." + number);
      // Steps with a part of the shards, because each shard counts its own steps.
      optimizer->step(std::span(shards).first(1), {.lr = settings.second});
      optimizer->step(std::span(shards).last(1), {.lr = settings.second});
      for (const auto& [shard, param] : {std::pair(shards[0], "matrix"), {shards[1], "vector"}}) {
        const Tensor expected = saved(std::string(param) + ".value." + number);
        EXPECT_LT(((shard.data - expected).norm() / expected.norm()).item<double>(), 1e-13) << param << step;
      }
    }
    for (const auto& [shard, of] :
         {std::pair(shards[0], "row_var"), {shards[0], "col_var"}, {shards[1], "variance"}}) {
      const Tensor expected = saved((shard.data.dim() == 2 ? "matrix." : "vector.") + std::string(of));
      EXPECT_LT(((state_named(*optimizer, shard, of) - expected).norm() / expected.norm()).item<double>(),
                1e-13)
          << of;
    }
  }
}

TEST(Adafactor, Bf16StatisticsAreInFp32AndAnOverflowSkipsTheStep) {
  Param param{.name = "w"};
  Shard shard = shard_of(param, at::ones({4, 6}, at::kBFloat16));
  const auto optimizer = adafactor::make_optimizer({}, {&shard, 1}, {});
  shard.grad = at::full({4, 6}, 1e-3, at::kBFloat16);
  optimizer->step({&shard, 1}, {.lr = 0.5});
  EXPECT_EQ(state_named(*optimizer, shard, "row_var").scalar_type(), at::kFloat);
  EXPECT_EQ(state_named(*optimizer, shard, "row_var").sizes(), at::IntArrayRef({4}));
  EXPECT_EQ(state_named(*optimizer, shard, "col_var").sizes(), at::IntArrayRef({6}));
  // With equal numbers, the update has a root mean square of 1, times the rate.
  EXPECT_NEAR(shard.data[0][0].item<double>(), 0.5, 0x1p-8);
  const Tensor before = shard.data.clone(), rows = state_named(*optimizer, shard, "row_var").clone();
  shard.grad = at::full_like(shard.data, INFINITY);
  optimizer->step({&shard, 1}, {.lr = 0.5, .skip = at::ones({})});
  EXPECT_TRUE(at::equal(shard.data, before));
  EXPECT_TRUE(at::equal(state_named(*optimizer, shard, "row_var"), rows));
  EXPECT_EQ(state_named(*optimizer, shard, "step").item<int64_t>(), 1);
}

TEST(Adafactor, KeepsOneNumberPerRowAndColumn) {
  Trained trained(nano_spec({use("adafactor")}));
  int64_t numbers = 0;
  for (const Param* param : trained.session().params().all())
    numbers += param->shape.size() == 2 ? param->shape[0] + param->shape[1] : param->numel();
  EXPECT_EQ(trained.train()["memory"]["parts"]["optimizer_state"].get<int64_t>(), 4 * numbers);
}

TEST(Adafactor, RefusesAShardOfSeveralParameters) {
  Param one{.name = "a", .shape = {4}}, other{.name = "b", .shape = {4}};
  std::vector<Shard> flat = {
      {.data = at::zeros({8}), .segments = {{&one, Layout({4}), 0}, {&other, Layout({4}), 4}}}};
  EXPECT_THAT(error_of([&] { adafactor::make_optimizer({}, flat, {}); }),
              ::testing::HasSubstr("'a' shares a shard with 'b'"));
}
}  // namespace
}  // namespace optrush::testing
