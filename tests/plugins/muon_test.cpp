// Muon: the singular values after the iteration, the parameters that it updates, and the size of updates.
#include <ATen/Functions.h>
#include <gmock/gmock.h>

#include <cmath>
#include <fstream>
#include <random>

#include "base/temporary_folder.h"
#include "muon/optimizer.h"
#include "muon/orthogonalize.h"
#include "optimizers.h"
#include "support/error_of.h"
#include "support/training.h"

namespace optrush::testing {
namespace {
using ::testing::HasSubstr;

using Stack = std::vector<PluginUse>;

Tensor random(const std::vector<int64_t>& shape, at::ScalarType type) {
  at::manual_seed(3);
  return at::randn(shape, at::kDouble).to(type);
}

/// A singular value after five iterations. They act on each singular value separately.
Tensor iterated(Tensor singular_values, int64_t steps) {
  for (int64_t i = 0; i < steps; ++i) {
    const Tensor cube = singular_values.pow(3);
    singular_values = 3.4445 * singular_values - 4.7750 * cube + 2.0315 * cube * singular_values.square();
  }
  return singular_values;
}

/// Computed by the decomposition, not by products of the matrix with itself.
Tensor orthogonalized(const Tensor& matrix, int64_t steps) {
  const auto [u, s, v] = at::linalg_svd(matrix, /*full_matrices=*/false);
  return at::mm(u * iterated(s / matrix.norm(), steps), v);
}

TEST(Orthogonalize, ChangesOnlySingularValues) {
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{12, 12}, {20, 7}, {7, 20}, {1, 5}}) {
    SCOPED_TRACE(shape[0]);
    const Tensor matrix = random(shape, at::kDouble);
    for (const int64_t steps : {1, 5}) {
      const Tensor result = muon::orthogonalize(matrix, steps, at::kDouble);
      EXPECT_EQ(result.sizes(), matrix.sizes());
      EXPECT_LT((result - orthogonalized(matrix, steps)).abs().max().item<double>(), 1e-12);
    }
  }
}

TEST(Orthogonalize, SingularValuesAreNearOneInLowPrecision) {
  const Tensor matrix = random({48, 32}, at::kFloat);
  for (const auto& [type, tolerance] : {std::pair(at::kFloat, 1e-5), {at::kBFloat16, 0.05}}) {
    const Tensor result = muon::orthogonalize(matrix, 5, type);
    EXPECT_EQ(result.scalar_type(), at::kFloat);
    const Tensor s = at::linalg_svdvals(result);
    EXPECT_GT(s.min().item<double>(), 0.65);
    EXPECT_LT(s.max().item<double>(), 1.25);
    EXPECT_LT((result.to(at::kDouble) - orthogonalized(matrix.to(at::kDouble), 5)).abs().max().item<double>(),
              tolerance);
  }
}

TEST(Orthogonalize, ZerosStayZeros) {
  EXPECT_EQ(muon::orthogonalize(at::zeros({4, 3}), 5, at::kFloat).abs().max().item<double>(), 0);
}

TEST(Muon, UpdateIsTheOrthogonalizedMomentum) {
  Param param{.name = "w", .shape = {6, 4}, .axes = {"ffn", "model"}};
  Shard shard{.data = random({6, 4}, at::kDouble), .decay = true, .segments = {{&param, Layout({6, 4}), 0}}};
  TrainSpec spec;
  spec.weight_decay = 0.3;
  const double lr = 0.02;
  for (const bool nesterov : {true, false})
    for (const auto scale : {muon::Scale::match_rms, muon::Scale::spectral}) {
      const muon::Settings settings{.momentum = 0.8, .nesterov = nesterov, .scale = scale};
      const auto optimizer = muon::make_optimizer(spec, settings, {&shard, 1}, {}, nullptr);
      Tensor expected = shard.data.clone(), momentum = at::zeros_like(expected);
      for (int step = 0; step < 3; ++step) {
        shard.grad = at::cos(expected + step);
        momentum = 0.8 * momentum + 0.2 * shard.grad;
        const Tensor direction = nesterov ? 0.2 * shard.grad + 0.8 * momentum : momentum;
        const double factor = scale == muon::Scale::match_rms ? 0.2 * std::sqrt(6.0) : std::sqrt(6.0 / 4.0);
        expected = (1 - lr * 0.3) * expected - lr * factor * orthogonalized(direction, 5);
        optimizer->step({&shard, 1}, {.lr = lr});
        EXPECT_LT((shard.data - expected).abs().max().item<double>(), 1e-12) << step;
      }
      EXPECT_LT((optimizer->state(shard).at(0).value - momentum).abs().max().item<double>(), 1e-14);
      // A step with an overflowed gradient is skipped.
      const Tensor before = shard.data.clone();
      shard.grad = at::full_like(shard.data, INFINITY);
      optimizer->step({&shard, 1}, {.lr = lr, .skip = at::ones({})});
      EXPECT_TRUE(at::equal(shard.data, before));
      shard.grad = Tensor();
      optimizer->step({&shard, 1}, {.lr = lr});
      EXPECT_TRUE(at::equal(shard.data, before)) << "no gradient, no decay";
    }
}

/// The parameters after the first step of a run, by name.
std::map<std::string, Tensor> parameters_after_a_step(RunSpec spec) {
  spec.train.warmup = 0;
  spec.train.steps = 1;
  Trained run(spec);
  run.train();
  std::map<std::string, Tensor> values;
  for (const Param* param : run.session().params().all()) values[param->name] = param->leaf.detach().clone();
  return values;
}

TEST(Muon, LeavesEmbeddingHeadAndVectorsToTheOptimizerBelow) {
  for (const Stack& below : {Stack{}, Stack{use("fused_adamw")}, Stack{use("adamw_8bit")}}) {
    Stack above = below;
    above.push_back(use("muon"));
    const auto without = parameters_after_a_step(nano_spec(below)),
               with = parameters_after_a_step(nano_spec(above));
    ASSERT_EQ(without.size(), with.size());
    int matrices = 0;
    for (const auto& [name, value] : without) {
      const bool inside = value.dim() == 2 && name != "model.embed_tokens.weight" && name != "lm_head.weight";
      EXPECT_EQ(at::equal(value, with.at(name)), !inside) << name;
      matrices += inside ? 1 : 0;
    }
    EXPECT_EQ(matrices, 2 * 7);
  }
}

TEST(Muon, OtherParametersMayHaveTheirOwnLearningRate) {
  RunSpec slow = nano_spec({use("fused_adamw")});
  slow.train.lr /= 8;
  const auto without = parameters_after_a_step(slow),
             with = parameters_after_a_step(
                 nano_spec({use("fused_adamw"), use("muon", {{"others_lr", 0.125}})}));
  const auto same_rate = parameters_after_a_step(nano_spec({use("fused_adamw"), use("muon")}));
  for (const auto& [name, value] : with) {
    const bool inside = value.dim() == 2 && name != "model.embed_tokens.weight" && name != "lm_head.weight";
    EXPECT_TRUE(at::equal(value, (inside ? same_rate : without).at(name))) << name;
    EXPECT_FALSE(at::equal(value, (inside ? without : same_rate).at(name))) << name;
  }
}

TEST(Muon, KeepsOneNumberPerMatrixElement) {
  RunSpec spec = nano_spec({use("fused_adamw")});
  const auto bytes = [](const RunSpec& of) {
    return Trained(of).train()["memory"]["parts"]["optimizer_state"].get<int64_t>();
  };
  const int64_t adamw = bytes(spec);
  spec.plugins.push_back(use("muon"));
  const int64_t hidden = 2 * (2 * 32 * 32 + 2 * 32 * 16 + 3 * 32 * 48);
  EXPECT_EQ(bytes(spec), adamw - 4 * hidden);
}

/// Compared with AdamW at AdamW's best rate.
TEST(Muon, ReachesALossInFewerSteps) {
  const TemporaryFolder folder;
  std::ofstream text(folder / "text");
  std::mt19937 random(7);
  for (int i = 0; i < 4000; ++i) text << std::array{"one ", "two, ", "three ", "four. "}[random() % 4];
  text.close();
  const auto last_loss = [&](const char* optimizer, double lr) {
    RunSpec spec = nano_spec({use(optimizer)});
    spec.data = {.kind = "text", .path = folder / "text", .extensions = {}};
    spec.model["vocab_size"] = 256;
    spec.train.lr = lr;
    spec.train.steps = 60;
    const auto curve = losses(Trained(spec).train());
    double sum = 0;
    for (size_t i = curve.size() - 10; i < curve.size(); ++i) sum += curve[i];
    return sum / 10;
  };
  double adamw = INFINITY;
  for (const double lr : {0.003, 0.01, 0.03}) adamw = std::min(adamw, last_loss("fused_adamw", lr));
  EXPECT_LT(last_loss("muon", 0.01), adamw);
}

TEST(Muon, UnsupportedShardsAndPluginsAreRefused) {
  Param matrix{.name = "w", .shape = {6, 4}, .axes = {"ffn", "model"}};
  Param norm{.name = "n", .shape = {4}, .axes = {"model"}};
  std::vector<Shard> flat = {
      {.data = at::zeros({28}), .segments = {{&norm, Layout({4}), 0}, {&matrix, Layout({6, 4}), 4}}}};
  EXPECT_THAT(error_of([&] { muon::split(flat); }), HasSubstr("'w' shares a shard with 'n'"));
  EXPECT_THAT(error_of([] {
                Trained run(nano_spec({use("muon"), use("bf16_weights")}));
              }),
              HasSubstr("bf16_weights"));
  RunSpec norms = nano_spec({use("muon")});
  EXPECT_THAT(error_of([&] {
                Trained run(norms, [](Recipe& recipe) {
                  recipe.on(Event::meta_initialized, Phase::base, [](optrush::Run& of) {
                    for (Param* each : of.params().all()) each->trainable = each->shape.size() == 1;
                  });
                });
              }),
              HasSubstr("none of them is trained"));
}
}  // namespace
}  // namespace optrush::testing
