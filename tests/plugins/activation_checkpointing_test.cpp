// Activation checkpointing: every policy gives the bits of the plain gradients in every stack, and keeps the
// expected bytes.
#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <numeric>

#include "data/batches.h"
#include "measure/memory.h"
#include "optrush/differentiable.h"
#include "optrush/recipe.h"
#include "precision.h"
#include "support/attention_ring.h"
#include "support/error_of.h"
#include "support/training.h"
#include "worker/predict.h"

namespace optrush::testing {
namespace {
std::vector<PluginUse> policies() {
  return {checkpointing({{"policy", "full"}}),
          checkpointing({{"policy", "every"}}),
          checkpointing({{"policy", "selective"}}),
          checkpointing({{"policy", "selective"}, {"keep", Json::array()}}),
          checkpointing({{"policy", "selective"}, {"keep", {"attention"}}}),
          checkpointing({{"policy", "selective"}, {"keep", {"norm", "position"}}}),
          checkpointing({{"policy", "selective"}, {"keep", {"linear", "add_norm", "swiglu"}}}),
          checkpointing({{"policy", "budget"}, {"budget", 0}}),
          checkpointing({{"policy", "budget"}}),
          checkpointing({{"policy", "budget"}, {"budget", 0.8}}),
          checkpointing({{"policy", "budget"}, {"budget", 1}}),
          checkpointing({{"policy", "offload"}})};
}

RunSpec spec_of(std::vector<PluginUse> stack, int64_t layers = 3) {
  RunSpec spec = nano_spec(std::move(stack));
  spec.model["n_layers"] = layers;
  return spec;
}

/// The gradient of every trainable parameter in one step of two micro-batches. `change` may edit each batch.
Tensors gradients(const RunSpec& spec, const std::function<void(Recipe&)>& edit = {},
                  const std::function<void(Batch&, int64_t micro)>& change = {}) {
  Trained trained(spec, edit);
  Session& session = trained.session();
  at::manual_seed(5);
  const Tensor tokens = at::randint(64, {4, 16}, at::kLong);
  for (int64_t micro = 0; micro < 2; ++micro) {
    Batch batch;
    batch.tokens = tokens.roll(micro, 0);
    batch.labels = tokens.roll(1 + micro, 1);
    batch.positions = at::arange(16).expand({4, 16});
    batch.token_count = 128;
    session.prepare(batch);
    if (change) change(batch, micro);
    session.forward(0, batch, {}).backward();
  }
  session.data_parallel().finish();
  Tensors found;
  for (const Shard& shard : session.data_parallel().shards()) found.push_back(shard.grad.clone());
  return found;
}

void expect_equal_bits(const Tensors& got, const Tensors& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(at::equal(got[i], expected[i])) << "parameter " << i;
}

TEST(ActivationCheckpointing, EveryPolicyGivesBitEqualGradients) {
  const std::vector<std::vector<PluginUse>> stacks = {
      {},
      {{"flash_attention", Json::object()}, {"swiglu_recompute", {{"level", 1}}}},
      {{"fused_kernels", Json::object()}, {"fused_linear_cross_entropy", Json::object()}},
      {{"lora", {{"rank", 4}, {"target_modules", {"q_proj", "o_proj", "up_proj", "down_proj"}}}}},
      {{"mixed_precision", {{"dtype", "bf16"}}}, {"flash_attention", Json::object()}},
      {{"mixed_precision", {{"dtype", "bf16"}}}, {"lora", {{"rank", 4}, {"dropout", 0.5}}}}};
  for (const auto& stack : stacks) {
    const Tensors expected = gradients(spec_of(stack));
    const auto all = policies();
    // Every second stack in bf16, because bf16 is slow on many CPUs.
    const bool narrow = !stack.empty() && stack.front().name == "mixed_precision";
    for (size_t i = 0; i < all.size(); i += narrow ? 2 : 1) {
      const auto& policy = all[i];
      auto both = stack;
      both.push_back(policy);
      SCOPED_TRACE(policy.options.dump() + " on " + std::to_string(&stack - stacks.data()));
      expect_equal_bits(gradients(spec_of(both)), expected);
    }
  }
}

TEST(ActivationCheckpointing, EveryPolicyGivesBitEqualGradientsOfAPair) {
  const Differentiable swiglu{{.name = "swiglu",
                               .forward = [](const Tensors& in) -> Differentiable::Result {
                                 return {{at::silu(in[0]) * in[1]}, {in[0], in[1]}};
                               },
                               .backward = [](const Tensors& saved, const Tensors& gradients) -> Tensors {
                                 const Tensor sigmoid = at::sigmoid(saved[0]);
                                 const Tensor slope = sigmoid * (1 + saved[0] * (1 - sigmoid));
                                 return {gradients[0] * saved[1] * slope, gradients[0] * saved[0] * sigmoid};
                               }}};
  const auto replaced = [&](Recipe& recipe) {
    recipe.ops.swiglu.replace(
        [&](const Tensor& gate, const Tensor& up) {
          return call(swiglu, {gate, up}).at(0);
        },
        swiglu->traits);
  };
  const Tensors expected = gradients(spec_of({}), replaced);
  for (const auto& policy : policies()) {
    SCOPED_TRACE(policy.options.dump());
    expect_equal_bits(gradients(spec_of({policy}), replaced), expected);
  }
}

TEST(ActivationCheckpointing, RecomputationUsesNamedTensorsOfItsBatch) {
  const auto scaled = [](Recipe& recipe) {
    recipe.ops.position.replace(
        [](const Tensor& q, const Tensor& k, const Batch& batch) -> std::array<Tensor, 2> {
          const Tensor& scale = batch.named.at("scale");
          return {q * scale, (k * scale).sin()};
        },
        {.trace = Trace::aten});
  };
  const auto by = [](double factor) {
    return [factor](Batch& batch, int64_t micro) {
      batch.named["scale"] =
          (batch.positions.to(at::kFloat) * 0.1 + factor + static_cast<double>(micro)).view({4, 1, 16, 1});
    };
  };
  const Tensors expected = gradients(spec_of({}), scaled, by(1));
  EXPECT_FALSE(at::equal(gradients(spec_of({}), scaled, by(2)).front(), expected.front()));
  for (const auto& policy : policies()) {
    SCOPED_TRACE(policy.options.dump());
    expect_equal_bits(gradients(spec_of({policy}), scaled, by(1)), expected);
  }
}

TEST(ActivationCheckpointing, RecomputationUsesPackedDocuments) {
  const auto packed = [](Batch& batch, int64_t micro) {
    batch.segments =
        micro == 0 ? segments_of({16, 3, 13, 8, 8, 16}, 4) : segments_of({5, 11, 16, 16, 15, 1}, 4);
  };
  for (const auto& stack :
       {std::vector<PluginUse>{}, std::vector<PluginUse>{{"flash_attention", Json::object()}}}) {
    const Tensors expected = gradients(spec_of(stack), {}, packed);
    EXPECT_FALSE(at::equal(gradients(spec_of(stack)).front(), expected.front()));
    for (const auto& policy : policies()) {
      SCOPED_TRACE(policy.options.dump() + (stack.empty() ? "" : " on flash_attention"));
      auto both = stack;
      both.push_back(policy);
      expect_equal_bits(gradients(spec_of(both), {}, packed), expected);
    }
  }
}

/// Activation bytes of a run at its peak, counted on the host. With the large vocabulary the peak is at the
/// head, when every block holds its saved tensors.
int64_t activations(std::vector<PluginUse> stack, int64_t layers = 3, int64_t vocabulary = 2048) {
  RunSpec spec = spec_of(std::move(stack), layers);
  spec.model["vocab_size"] = vocabulary;
  return Trained(spec).train()["memory"]["parts"]["activations"];
}

// Sizes of nano_spec in elements: 4 sequences of 16 tokens.
constexpr int64_t kTokens = 4 * 16, kModel = kTokens * 32, kKeys = kTokens * 16, kFfn = kTokens * 48,
                  kScores = 4 * 4 * 16 * 16;

TEST(ActivationCheckpointing, FullKeepsInputsAndTheLargerOfOneBlockAndTheHead) {
  const std::vector<PluginUse> full = {checkpointing({{"policy", "full"}})};
  const int64_t input = 4 * kModel, tokens = 8 * kTokens, tables = 2 * 4 * 16 * 8;
  for (const int64_t vocabulary : {64, 2048}) {
    const int64_t block = activations({}, 4, vocabulary) - activations({}, 3, vocabulary);
    const int64_t head = activations({}, 4, vocabulary) - 4 * block - tokens - tables;
    EXPECT_EQ(block - input + tables > head, vocabulary == 64);
    EXPECT_EQ(activations(full, 4, vocabulary), 4 * input + tokens + std::max(block - input + tables, head));
  }
}

TEST(ActivationCheckpointing, SelectiveKeepsTheBytesOfItsSlots) {
  const auto per_block = [](const std::vector<PluginUse>& stack) {
    return activations(stack, 4) - activations(stack, 3);
  };
  const auto selective = [&](Json keep) {
    return per_block({checkpointing({{"policy", "selective"}, {"keep", std::move(keep)}})});
  };
  const int64_t input = 4 * kModel;
  EXPECT_EQ(per_block({checkpointing({{"policy", "full"}})}), input);
  EXPECT_EQ(selective(Json::array()), input);
  // q, k, v, o, gate and up. The backward does not need the output of down_proj.
  const int64_t linear = 4 * (kModel + 2 * kKeys + kModel + 2 * kFfn);
  EXPECT_EQ(selective({"linear"}), input + linear);
  // Tensors of attention: the scaled q, k and v copied for the matmuls, the weights, and the output.
  const int64_t attention = selective({"attention"}) - input;
  EXPECT_GE(attention, 4 * (kScores + kModel));
  EXPECT_LE(attention, 4 * (kScores + 2 * kModel + 2 * kKeys));
  EXPECT_EQ(selective({"attention", "linear"}), input + linear + attention);
  EXPECT_LT(input + linear + attention, per_block({}));
}

TEST(ActivationCheckpointing, CastsOfInputsAreNotKept) {
  const auto per_block = [](Json keep) {
    const std::vector<PluginUse> stack = {checkpointing({{"policy", "selective"}, {"keep", std::move(keep)}}),
                                          {"mixed_precision", {{"dtype", "bf16"}}}};
    return activations(stack, 4) - activations(stack, 3);
  };
  // Outputs are in bf16. The weights in bf16 are copies for the step and count as parameters.
  EXPECT_EQ(per_block({"linear"}) - per_block(Json::array()), 2 * (kModel + 2 * kKeys + kModel + 2 * kFfn));
}

int64_t predicted_by_budget(const Json& result) {
  const std::string note = result;
  return std::stoll(note.substr(note.find("keep ") + 5));
}

TEST(ActivationCheckpointing, BudgetKeepsNoMoreThanPredicted) {
  const auto run = [](double budget) {
    RunSpec spec = spec_of({checkpointing({{"policy", "budget"}, {"budget", budget}})}, 4);
    spec.model["vocab_size"] = 2048;
    Trained trained(spec);
    const int64_t bytes = trained.train()["memory"]["parts"]["activations"];
    return std::pair(bytes, predicted_by_budget(trained.session().log().notes().at(0)));
  };
  const auto [least, least_predicted] = run(0);
  EXPECT_EQ(least_predicted, 4 * 4 * kModel);
  const auto [most, most_predicted] = run(1);
  EXPECT_EQ(most, activations({}, 4));
  EXPECT_EQ(most - least, most_predicted - least_predicted);
  int64_t before = least;
  for (const double budget : {0.3, 0.5, 0.7, 0.9, 100000.0, 200000.0}) {
    const auto [bytes, predicted] = run(budget);
    EXPECT_EQ(bytes - least, predicted - least_predicted) << budget;
    const double limit = budget > 1 ? budget : budget * static_cast<double>(most_predicted);
    EXPECT_LE(static_cast<double>(predicted), limit);
    if (budget < 1) {
      EXPECT_GT(bytes, before);
      before = bytes;
    }
    EXPECT_EQ(run(budget).second, predicted);
  }
  EXPECT_LT(before, most);
  EXPECT_NE(error_of([&] { run(100); }).find("a budget of 100 bytes is less than"), std::string::npos);
}

TEST(ActivationCheckpointing, BudgetAvoidsRecomputationOfMatmulsFirst) {
  const auto flops = [](std::vector<PluginUse> stack) {
    return Trained(spec_of(std::move(stack))).train()["flops_per_token"]["hfu"].get<double>();
  };
  const double plain = flops({});
  const double full = flops({checkpointing({{"policy", "full"}})});
  const double half = flops({checkpointing({{"policy", "budget"}})});
  EXPECT_GT(half, plain);
  EXPECT_LT(half - plain, (full - plain) / 2);
  EXPECT_EQ(flops({checkpointing({{"policy", "selective"}})}), plain);
}

TEST(ActivationCheckpointing, OffloadMovesEachStorageOnceAndRestoresIt) {
  Trained trained(spec_of({checkpointing({{"policy", "offload"}})}));
  const Json result = trained.train();
  EXPECT_EQ(losses(result), losses(Trained(spec_of({})).train()));
  const std::string note = trained.session().log().notes().at(0);
  EXPECT_NE(note.find("on a CPU, this is the same memory"), std::string::npos) << note;
  // Two of three blocks. Every saved storage counts once, so the bytes equal the share of these blocks in the
  // plain count.
  const int64_t moved = std::stoll(note.substr(note.find("moves ") + 6));
  const int64_t plain = activations({}, 4) - activations({}, 3);
  EXPECT_EQ(moved, 2 * plain);
}

TEST(ActivationCheckpointing, OffloadRefusesASavedTensorThatWasChangedInPlace) {
  const auto trained = [](bool in_place) {
    Trained run(spec_of({checkpointing({{"policy", "offload"}})}), [in_place](Recipe& recipe) {
      recipe.unit.wrap(Phase::adapter,
                       [in_place](UnitFunction inner, const Unit& unit) -> UnitFunction {
                         if (unit.role != UnitRole::block || unit.layer != 0)
                           return inner;  // the last block stays
                         return [inner, in_place](const Tensor& x, const Batch& batch) {
                           const Tensor gate = inner(x, batch).sigmoid();  // autograd saves this output
                           return in_place ? gate.mul_(2) : gate.mul(2);
                         };
                       },
                       {.trace = Trace::aten});
    });
    return losses(run.train());
  };
  EXPECT_FALSE(trained(false).empty());
  EXPECT_NE(error_of([&] { trained(true); }).find("a saved tensor was changed in place"), std::string::npos);
}

TEST(ActivationCheckpointing, QuantizedActivationsTakeAByteAndAScaleForEachBlock) {
  at::set_num_threads(1);  // the runs are tiny, and the machine may be busy
  const auto per_block = [](std::vector<PluginUse> stack) {
    return activations(stack, 4) - activations(stack, 3);
  };
  const std::vector<PluginUse> quantize = {checkpointing({{"policy", "quantize"}})};
  const std::vector<PluginUse> pair = {{"fused_kernels", Json::object()},
                                       {"flash_attention", Json::object()}};
  for (const auto& stack : {std::vector<PluginUse>{}, pair}) {
    auto both = stack;
    both.push_back(quantize.front());
    const int64_t plain = per_block(stack), quantized = per_block(both);
    // Statistics stay in fp32: a number per token for each of two norms, and a number per token and head for
    // attention.
    const int64_t statistics = 4 * kTokens * (2 + (stack.empty() ? 0 : 4));
    const int64_t numbers = (plain - statistics) / 4;
    const int64_t blocks = numbers / 256;
    EXPECT_EQ(quantized, statistics + numbers + 4 * blocks) << "of " << plain;
  }
}

TEST(ActivationCheckpointing, QuantizedActivationsGiveCloseGradients) {
  at::set_num_threads(1);
  const std::vector<std::vector<PluginUse>> stacks = {
      {},
      {{"flash_attention", Json::object()}, {"fused_kernels", Json::object()}},
      {{"mixed_precision", {{"dtype", "bf16"}}}, {"flash_attention", Json::object()}},
      {{"lora", {{"rank", 4}}}, {"swiglu_recompute", {{"level", 1}}}}};
  for (const auto& stack : stacks) {
    auto both = stack;
    both.push_back(checkpointing({{"policy", "quantize"}}));
    const Tensors expected = gradients(spec_of(stack)), got = gradients(spec_of(both));
    ASSERT_EQ(got.size(), expected.size());
    bool differs = false;
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_LE((got[i] - expected[i]).norm().item<double>(), 0.05 * expected[i].norm().item<double>()) << i;
      differs = differs || !at::equal(got[i], expected[i]);
    }
    EXPECT_TRUE(differs);
    EXPECT_EQ(gradients(spec_of(both)).front().sum().item<double>(), got.front().sum().item<double>());
    EXPECT_EQ(losses(Trained(spec_of(both)).train()).front(), losses(Trained(spec_of(stack)).train()).front())
        << "the forward equals the plain form";
  }
}

/// The plain attention keeps its scores for the derivative of the log-sum-exp. A mask hides some by -inf.
TEST(ActivationCheckpointing, QuantizedScoresMayBeHidden) {
  const auto norms = [](std::vector<PluginUse> stack) {
    RunSpec spec = spec_of(std::move(stack));
    Trained trained(spec, [](Recipe& recipe) {
      recipe.ops.attention.wrap(Phase::adapter, [](auto inner) {
        return [inner](const Tensor& q, const Tensor& k, const Tensor& v,
                       const AttentionArgs& args) -> AttentionOut {
          AttentionArgs with_lse = args;
          with_lse.lse = true;
          const auto [out, lse] = inner(q, k, v, with_lse);
          return {out * lse.sigmoid().unsqueeze(-1), lse};
        };
      });
    });
    std::vector<double> found;
    const Json result = trained.train();
    for (const Json& step : result.at("steps")) found.push_back(step.at("grad_norm"));
    return found;
  };
  const auto plain = norms({}), quantized = norms({checkpointing({{"policy", "quantize"}})});
  ASSERT_EQ(quantized.size(), plain.size());
  EXPECT_NEAR(quantized.front(), plain.front(), 0.05 * plain.front());
}

TEST(ActivationCheckpointing, PeakWithQuantizedActivationsIsPredicted) {
  install_cpu_memory_tracking();
  RunSpec spec = spec_of({checkpointing({{"policy", "quantize"}}), {"fused_adamw", Json::object()}});
  spec.train.seq_len = 64;
  std::string why_not;
  const auto predicted = forecast(spec, at::kCPU, &why_not);
  ASSERT_TRUE(predicted) << why_not;
  const int64_t before = cpu_allocated();
  Trained trained(spec);
  const auto measured = trained.train()["memory"]["peak_allocated"].get<int64_t>() - before;
  EXPECT_NEAR(predicted->memory.peak, static_cast<double>(measured), 0.02 * static_cast<double>(measured));
}

TEST(ActivationCheckpointing, CompilerAppliesThePolicy) {
  int calls = 0;
  const auto count_forwards = [&](Recipe& recipe) {
    recipe.unit.wrap(Phase::compile, [&](UnitFunction inner, const Unit& unit) -> UnitFunction {
      if (unit.role != UnitRole::block) return inner;
      return [&calls, inner = std::move(inner)](const Tensor& x, const Batch& batch) {
        ++calls;
        return inner(x, batch);
      };
    });
  };
  for (const auto& [options, expected] :
       {std::pair(Json{{"policy", "selective"}}, 3), std::pair(Json{{"policy", "budget"}}, 3),
        std::pair(Json{{"policy", "full"}}, 6)}) {
    calls = 0;
    gradients(spec_of({checkpointing(options)}), count_forwards);
    EXPECT_EQ(calls, 2 * expected) << options;
  }
}

TEST(ActivationCheckpointing, ThePlanShowsThePolicy) {
  const auto shown = [](Json options) {
    const auto session = RunSetup::open(nano_spec({checkpointing(std::move(options))}), at::kCPU);
    session->declare();
    return make_plan(*session).activations;
  };
  EXPECT_EQ(shown({{"policy", "full"}}), Json({{"policy", "save"}}));
  EXPECT_EQ(shown({{"policy", "selective"}}),
            Json({{"policy", "selective"}, {"keep", {"attention", "linear"}}}));
  EXPECT_EQ(shown({{"policy", "budget"}, {"budget", 0.25}}), Json({{"policy", "budget"}, {"budget", 0.25}}));
}

TEST(ActivationCheckpointing, OptionsOfAnotherPolicyAreErrors) {
  for (const Json& options :
       {Json{{"policy", "selective"}, {"every", 3}}, Json{{"policy", "full"}, {"keep", {"norm"}}},
        Json{{"policy", "offload"}, {"budget", 0.25}}})
    EXPECT_NE(
        error_of([&] { Trained{nano_spec({checkpointing(options)})}; }).find("has no effect with policy"),
        std::string::npos);
  EXPECT_THROW(Trained(nano_spec({checkpointing({{"policy", "selective"}, {"keep", {"softmax"}}})})), Error);
}
}  // namespace
}  // namespace optrush::testing
