// Stochastic rounding: its probabilities, independence of the mesh, and training.
#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "measure/memory.h"
#include "optimizers.h"
#include "precision.h"
#include "round_by_chance.h"
#include "support/error_of.h"
#include "worker/predict.h"

namespace optrush::testing {
namespace {
using stochastic_rounding::key_of;
using stochastic_rounding::round_by_chance;

const PluginUse kRounding{"stochastic_rounding", Json::object()};

/// The rounded elements of a layout.
Tensor rounded(const Tensor& whole, const Layout& layout, uint64_t key = 5) {
  const Segment segment{nullptr, layout, 0};
  const Tensor wide = layout.take(whole).contiguous().flatten(), narrow = at::zeros_like(wide, at::kBFloat16);
  round_by_chance(wide, narrow, segment, key);
  return narrow;
}

TEST(StochasticRounding, RoundsToEachNeighbourInProportionToDistance) {
  constexpr int64_t kNumbers = 1 << 18;
  for (const double sign : {1.0, -1.0})
    for (const double part : {0.0, 0.125, 0.5, 0.875}) {
      const double lower = 1.5, gap = 0x1p-7;
      const Tensor wide = at::full({kNumbers}, sign * (lower + part * gap), at::kFloat);
      const Tensor result = rounded(wide, Layout({kNumbers})).to(at::kDouble) * sign;
      const Tensor up = result.eq(lower + gap);
      EXPECT_TRUE(at::logical_or(up, result.eq(lower)).all().item<bool>());
      const double deviation = std::sqrt(part * (1 - part) / kNumbers);
      EXPECT_NEAR(up.to(at::kDouble).mean().item<double>(), part, 5 * deviation);
    }
}

TEST(StochasticRounding, KeepsBf16ValuesAndNaN) {
  const Tensor values =
      at::tensor({0.0F, -0.0F, 1.5F, -3.25F, 1e-30F, INFINITY, -INFINITY, NAN}).to(at::kBFloat16);
  const Tensor result = rounded(values.to(at::kFloat), Layout({8}));
  EXPECT_TRUE(at::equal(result.view(at::kShort).slice(0, 0, 7), values.view(at::kShort).slice(0, 0, 7)));
  EXPECT_TRUE(std::isnan(result[7].item<float>()));
}

TEST(StochasticRounding, IsEqualOnEveryMesh) {
  at::manual_seed(2);
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{37, 53}, {70000}, {3, 5, 7}, {2, 40000}}) {
    const Tensor whole = at::randn(shape);
    const Layout all(shape);
    const Tensor once = rounded(whole, all).view(shape);
    const auto expect_part = [&](const Layout& layout) {
      EXPECT_TRUE(at::equal(rounded(whole, layout), layout.take(once).contiguous().flatten()));
    };
    const int64_t count = all.numel(), last = shape.back();
    expect_part(all.range(0, count / 3));
    expect_part(all.range(count / 3, count));
    expect_part(all.cut(static_cast<int64_t>(shape.size()) - 1, last / 2, last));
    expect_part(all.cut(static_cast<int64_t>(shape.size()) - 1, 0, last / 2).range(1, count / 4));
    EXPECT_FALSE(at::equal(rounded(whole, all, 6).view(shape), once)) << "another key";
  }
}

TEST(StochasticRounding, KeysDifferBySeedStepAndParameter) {
  const std::set<uint64_t> keys = {key_of(1, 0, "a"), key_of(2, 0, "a"),  key_of(1, 1, "a"),
                                   key_of(1, 0, "b"), key_of(1, 0, "ab"), key_of(1, 0, "ba"),
                                   key_of(1, 0, "")};
  EXPECT_EQ(keys.size(), 7U);
}

/// Every update is 1/32 of the last bit. Rounding to nearest would lose all updates.
TEST(StochasticRounding, SmallUpdatesAddUp) {
  at::set_num_threads(1);
  RunSpec spec = nano_spec({kRounding, use("lion")});
  spec.train.lr = 0x1p-13;
  spec.train.weight_decay = 0;
  spec.train.warmup = 0;
  spec.train.steps = 32;
  const auto moved = [](RunSpec of) {
    Trained trained(of, [](Recipe& recipe) {
      recipe.on(Event::ready, Phase::measure, [](optrush::Run& run) {
        const at::NoGradGuard no_grad;
        for (const Shard& shard : run.data_parallel().shards())
          if (shard.data.dim() == 2) shard.data.fill_(0.75);
      });
      // The gradient has the same sign in every step.
      recipe.gradients.wrap(Phase::measure, [](auto inner) {
        return [inner](Gradients& gradients, Update& update) {
          inner(gradients, update);
          for (const Shard& shard : gradients.shards())
            if (shard.grad.defined()) shard.grad.fill_(1);
        };
      });
    });
    const Json result = trained.train();
    EXPECT_THAT(result.dump(), ::testing::Not(::testing::HasSubstr("the other changes are lost")))
        << result.dump();
    double sum = 0, count = 0;
    for (const Shard& shard : trained.session().data_parallel().shards())
      if (shard.data.dim() == 2) {
        EXPECT_EQ(shard.data.scalar_type(), at::kBFloat16);
        sum += (0.75 - shard.data.to(at::kDouble)).sum().item<double>();
        count += static_cast<double>(shard.data.numel());
      }
    return sum / count;
  };
  EXPECT_NEAR(moved(spec), 32 * 0x1p-13, 0.05 * 32 * 0x1p-13);
}

TEST(StochasticRounding, TrainsLikeFp32WithEveryOptimizer) {
  at::set_num_threads(1);
  for (const char* optimizer : {"fused_adamw", "lion", "adafactor", "schedule_free", "muon"}) {
    SCOPED_TRACE(optimizer);
    RunSpec spec = ten_steps({use(optimizer)});
    spec.train.lr = 1e-3;
    const Json fp32 = Trained(spec).train();
    spec.plugins.push_back(kRounding);
    const Json rounding = Trained(spec).train();
    EXPECT_LT(apart(rounding, fp32), kTolerance);
    spec.plugins.push_back(use("optimizer_in_backward"));
    EXPECT_EQ(losses(Trained(spec).train()), losses(rounding)) << "independent of the time of an update";
  }
}

TEST(StochasticRounding, BytesOfEachPartAreAsExpected) {
  Trained trained(nano_spec({kRounding, use("fused_adamw")}));
  int64_t matrices = 0, vectors = 0;
  for (const Param* param : trained.session().params().all())
    (param->shape.size() > 1 ? matrices : vectors) += param->numel();
  const Json memory = trained.train()["memory"]["parts"];
  EXPECT_EQ(memory["parameters"], 2 * matrices + 4 * vectors);
  EXPECT_EQ(memory["gradients"], 2 * matrices + 4 * vectors);
  EXPECT_EQ(memory["optimizer_state"], 8 * (matrices + vectors));
}

TEST(StochasticRounding, PeakIsPredicted) {
  install_cpu_memory_tracking();
  RunSpec spec = nano_spec({kRounding, use("lion")});
  spec.train.seq_len = 64;
  std::string why_not;
  const auto predicted = forecast(spec, at::kCPU, &why_not);
  ASSERT_TRUE(predicted) << why_not;
  const int64_t before = cpu_allocated();
  Trained trained(spec);
  const auto measured = trained.train()["memory"]["peak_allocated"].get<int64_t>() - before;
  EXPECT_NEAR(predicted->memory.peak, static_cast<double>(measured), 0.02 * static_cast<double>(measured));
}

TEST(StochasticRounding, IncompatiblePluginsAreNamed) {
  const auto message = [](Stack stack, const std::string& dtype = "fp32") {
    RunSpec spec = nano_spec(std::move(stack));
    spec.train.dtype = dtype;
    return error_of([&] { Trained trained(spec); });
  };
  EXPECT_THAT(message({kRounding, kBf16Weights}), ::testing::HasSubstr("bf16_weights"));
  EXPECT_THAT(message({kRounding, use("mixed_precision")}), ::testing::HasSubstr("mixed_precision"));
  EXPECT_THAT(message({kRounding}, "fp64"), ::testing::HasSubstr("fp64"));
}
}  // namespace
}  // namespace optrush::testing
