// Training with float8: delayed scales, selected linears, and the return to the plain form.
#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <set>

#include "float8/linear_function.h"
#include "measure/step_costs.h"
#include "optrush/optimizer.h"
#include "precision.h"
#include "simulated/device.h"
#include "support/error_of.h"
#include "train/state.h"

namespace optrush::testing {
namespace {
TEST(Float8, DelayedScalesFollowFp32OnEveryStack) {
  const Json fp32 = Trained(ten_steps({})).train();
  const Stack stacks[] = {{},
                          {{"mixed_precision", Json::object()}},
                          {kBf16Weights},
                          {{"mixed_precision", Json::object()},
                           {"gradient_accumulation", {{"steps", 2}}},
                           checkpointing({{"policy", "full"}})}};
  for (Stack stack : stacks) {
    stack.push_back({"float8", Json::object()});
    const auto dynamic = losses(Trained(ten_steps(stack)).train());
    stack.back() = kDelayed;
    const Json got = Trained(ten_steps(stack)).train();
    EXPECT_LT(apart(got, fp32), kTolerance);
    EXPECT_EQ(losses(got)[0], dynamic[0]);  // the first step has no earlier one
    EXPECT_NE(losses(got), dynamic);
  }
}

/// Validations are between the steps, and change neither the scales nor the state.
TEST(Float8, DelayedScalesContinueFromTheSavedState) {
  for (const bool validates : {false, true}) {
    RunSpec spec = ten_steps({{"mixed_precision", Json::object()}, kDelayed});
    spec.train.steps = 9;
    const auto whole = losses(Trained(spec).train());
    if (validates) spec.validate.every = 2, spec.validate.data = spec.data;
    spec.train.steps = 5;
    Trained begun(spec);
    const auto first = losses(begun.train());
    std::map<std::string, std::vector<StatePiece>> saved;
    for (auto& piece : state_to_save(begun.session(), 5)) saved[piece.key].push_back(piece);
    spec.train.steps = 4;
    Trained resumed(spec);
    load_state(resumed.session(), [&](const std::string& key) { return saved[key]; });
    const auto rest = losses(resumed.train());
    for (size_t i = 0; i < 5; ++i) EXPECT_EQ(first[i], whole[i]) << i;
    for (size_t i = 0; i < 4; ++i) EXPECT_EQ(rest[i], whole[5 + i]) << i;
  }
}

TEST(Float8, DelayedScalesRefuseOtherRecipesAndACompiler) {
  const auto refusal = [](const Stack& stack) {
    return error_of([&] { Trained trained(nano_spec(stack)); });
  };
  EXPECT_NE(refusal({{"float8", {{"scales", "delayed"}, {"recipe", "rowwise"}}}})
                .find("for recipe = \"tensorwise\""),
            std::string::npos);
  EXPECT_NE(refusal({{"compile", Json::object()}, kDelayed}).find("needs the kernels of this plugin"),
            std::string::npos);
}

/// A GPU reads a matrix once: 2 bytes a number in bf16, and writes it and its transpose.
TEST(Float8, GpuFormOfDelayedScalesReadsAMatrixOnce) {
  const at::Device gpu = simulated::open(at::kCUDA);
  const auto options = at::TensorOptions(at::kBFloat16).device(gpu);
  const Tensors x = {at::empty({4096, 512}, options), at::empty({4096, 256}, options)};
  const Tensor past = at::empty({16}, options.dtype(at::kFloat)), seen = at::empty({512}, past.options());
  const double numbers = 4096 * (512 + 256);
  for (const bool delays : {false, true}) {
    const Params none{};
    StepCosts costs(none, gpu);
    costs.enter(Bucket::forward);
    float8::quantize_both_ways(x, at::kFloat8_e5m2, Scaling::tensorwise,
                               delays ? float8::Delayed{past, seen} : float8::Delayed{});
    costs.stop();
    const OperatorCost cost = costs.total();
    EXPECT_EQ(cost.launches, delays ? 2 : 5);  // without, also two searches and a concatenation
    EXPECT_NEAR(cost.elementwise_bytes, numbers * (delays ? 4 : 6), delays ? 0 : 1e5);
    EXPECT_EQ(cost.host_waits, 0);
  }
}

RunSpec wide_steps(Stack stack) {
  RunSpec spec = ten_steps(std::move(stack));
  spec.model.update({{"dim", 128}, {"ffn_dim", 256}, {"n_kv_heads", 4}});
  spec.train.micro_batch = 8;
  return spec;
}

TEST(Float8, BlockwiseTrainingFollowsFp32) {
  const PluginUse blockwise = {"float8", {{"recipe", "blockwise"}}};
  const Json fp32 = Trained(wide_steps({})).train();
  const Json alone = Trained(wide_steps({blockwise})).train();
  EXPECT_LT(apart(alone, fp32), kTolerance);
  EXPECT_NE(losses(alone), losses(fp32));
  const PluginUse autocast = {"mixed_precision", Json::object()};
  EXPECT_LT(apart(Trained(wide_steps({autocast, checkpointing(Json::object()), blockwise})).train(), fp32),
            kTolerance);
  const double norm = fp32["steps"][0]["grad_norm"].get<double>();
  EXPECT_NEAR(alone["steps"][0]["grad_norm"].get<double>(), norm, 0.02 * norm);
  // A product counts the same FLOPs.
  EXPECT_EQ(alone["flops_per_token"]["hfu"], fp32["flops_per_token"]["hfu"]);
}

TEST(Float8, BlockwiseNeedsMultiplesOf128) {
  const auto refusal = [](const Json& options, const std::function<void(RunSpec&)>& edit = {}) {
    RunSpec spec = wide_steps({{"float8", options}});
    if (edit) edit(spec);
    return error_of([&] { Trained trained(spec); });
  };
  const Json blockwise = {{"recipe", "blockwise"}};
  EXPECT_EQ(refusal(blockwise), "");
  EXPECT_NE(
      refusal(blockwise, [](RunSpec& spec) { spec.train.micro_batch = 4; }).find("a multiple of 128 tokens"),
      std::string::npos);
  const auto narrow = [](RunSpec& spec) { spec.model.update({{"dim", 64}, {"ffn_dim", 64}}); };
  EXPECT_NE(refusal(blockwise, narrow).find("no selected linear layer has widths that are multiples of 128"),
            std::string::npos);
  EXPECT_NE(refusal({{"recipe", "blockwise"}, {"fast_sums", "all"}}).find("whose sums are always exact"),
            std::string::npos);
}

TEST(Float8, TrainingFollowsFp32OnEveryStack) {
  const Json fp32 = Trained(ten_steps({})).train();
  const auto difference = [&](const char* recipe, Stack stack,
                              const std::function<void(Recipe&)>& edit = {}) {
    stack.push_back({"float8", {{"recipe", recipe}}});
    return apart(Trained(ten_steps(stack), edit).train(), fp32);
  };
  const Stack autocast = {{"mixed_precision", Json::object()}};
  EXPECT_LT(difference("tensorwise", {}), kTolerance);
  EXPECT_LT(difference("tensorwise", autocast), kTolerance);
  EXPECT_LT(difference("tensorwise", {kBf16Weights}), kTolerance);
  EXPECT_LT(difference("rowwise", autocast), kTolerance);
}

/// The sums of a CPU have 32 bits. The test fake_cuda.float8 finds which products of a GPU have fast sums.
TEST(Float8, FastSumsAreEqualOnACpu) {
  const auto losses_with = [](const char* fast_sums) {
    return losses(Trained(ten_steps({{"float8", {{"fast_sums", fast_sums}}}})).train());
  };
  const auto forward = losses_with("forward");
  EXPECT_EQ(losses_with("none"), forward);
  EXPECT_EQ(losses_with("all"), forward);
}

/// Losses of a few steps of a small model show little. Gradient norms distinguish a lost scale from rounding.
/// `optrush check` compares them as well.
TEST(Float8, ALostScaleShowsInTheGradientNorm) {
  const auto norm = [](const Stack& stack, double factor = 1) {
    const auto scaled = [factor](Ops::Linear::Fn inner, const Module& module) -> Ops::Linear::Fn {
      if (module.layer < 0) return inner;
      return [inner, factor](const Tensor& x) { return inner(x) * factor; };
    };
    Trained trained(ten_steps(stack),
                    [&](Recipe& recipe) { recipe.ops.linear.wrap(Phase::quantize, scaled); });
    return trained.train()["steps"][0]["grad_norm"].get<double>();
  };
  const double plain = norm({});
  for (const char* recipe : {"tensorwise", "rowwise"}) {
    const Stack stack = {{"float8", {{"recipe", recipe}}}};
    EXPECT_NEAR(norm(stack), plain, 0.02 * plain) << recipe;
    EXPECT_GT(std::abs(norm(stack, 2) - plain), 0.1 * plain) << recipe;
  }
}

TEST(Float8, WeightsAreQuantizedOncePerStepAndFlopsAreCounted) {
  RunSpec spec = nano_spec({{"float8", Json::object()},
                            {"mixed_precision", Json::object()},
                            {"gradient_accumulation", {{"steps", 2}}},
                            checkpointing(Json::object())});
  Trained trained(spec);
  constexpr int64_t kInBlocks = 2 * 7;
  Json result;
  {
    const CallCount scales(trained.session().params(), "aten::linalg_vector_norm");
    result = trained.train();
    EXPECT_EQ(scales.total() - norms_of_a_run(trained.session()), 3 * kInBlocks);
  }
  spec.plugins.erase(spec.plugins.begin());
  EXPECT_EQ(result["flops_per_token"]["hfu"], Trained(spec).train()["flops_per_token"]["hfu"]);
}

/// The linears whose outputs were computed in fp8. Only these are numbers of bf16.
std::set<std::string> in_fp8(const Json& options) {
  std::set<std::string> found;
  const auto look = [&](Ops::Linear::Fn inner, const Module& module) -> Ops::Linear::Fn {
    return [&, inner, path = module.path](const Tensor& x) {
      Tensor out = inner(x);
      if (at::equal(out, out.to(at::kBFloat16).to(out.scalar_type()))) found.insert(path);
      return out;
    };
  };
  Trained(nano_spec({{"float8", options}}), [&](Recipe& recipe) {
    recipe.ops.linear.wrap(Phase::quantize, look);
  }).train();
  return found;
}

TEST(Float8, OptionsSelectLinears) {
  constexpr size_t kOfABlock = 7;
  const auto all = in_fp8(Json::object());
  EXPECT_EQ(all.size(), 2 * kOfABlock);
  const auto last = in_fp8({{"skip_first", 1}}), first = in_fp8({{"skip_last", 1}});
  EXPECT_EQ(last.size(), kOfABlock);
  EXPECT_TRUE(last.contains("model.layers.1.mlp.down_proj"));
  EXPECT_EQ(first.size(), kOfABlock);
  EXPECT_TRUE(first.contains("model.layers.0.mlp.down_proj"));
  const Json named = {"q_proj", "v_proj", "mlp.down_proj"};  // two of the three that share an input
  EXPECT_EQ(in_fp8({{"linears", named}, {"skip_last", 1}}),
            (std::set<std::string>{"model.layers.0.self_attn.q_proj", "model.layers.0.self_attn.v_proj",
                                   "model.layers.0.mlp.down_proj"}));
}

TEST(Float8, AnUnknownLinearAndAnEmptySelectionAreRefused) {
  const auto refusal = [](const Json& options) {
    return error_of([&] { Trained trained(nano_spec({{"float8", options}})); });
  };
  const std::string unknown = refusal({{"linears", {"q_proj", "qproj"}}});
  EXPECT_NE(unknown.find("linears names 'qproj', but the blocks of this model have no such linear layer"),
            std::string::npos)
      << unknown;
  EXPECT_NE(unknown.find("one of: down_proj, gate_proj, k_proj"), std::string::npos) << unknown;
  EXPECT_NE(refusal({{"linears", {"lm_head"}}}).find("no such linear layer"), std::string::npos);
  const std::string none = refusal({{"skip_first", 1}, {"skip_last", 1}});
  EXPECT_NE(none.find("skip_first = 1, skip_last = 1 and linears select no linear layer of 2 blocks"),
            std::string::npos)
      << none;
}

/// Losses and gradient norms, or validation losses before the last step, of ten steps from step `first` on.
/// Only the last step changes the weights.
std::vector<double> steps_with(Stack stack, int64_t first, bool validates = false) {
  RunSpec spec = ten_steps(std::move(stack));
  if (validates) {
    spec.validate.every = 1;
    spec.validate.data = spec.data;
  }
  const auto keep_weights = [updates = int64_t{0}](auto inner) {
    return [inner, updates](Gradients& gradients, Update& update) mutable {
      inner(gradients, update);
      if (++updates < 10) update.lr = 0;
    };
  };
  Trained trained(spec, [&](Recipe& recipe) { recipe.gradients.wrap(Phase::optimizer, keep_weights); });
  trained.session().resume_at(first);
  const Json result = trained.train();
  std::vector<double> values;
  for (size_t i = 0; i < result["steps"].size(); ++i) {
    values.push_back(result["steps"][i]["loss"].get<double>());
    if (!validates)
      values.push_back(result["steps"][i]["grad_norm"].get<double>());
    else if (i + 1 < result["steps"].size())
      values.push_back(result["validation"][i]["loss"].get<double>());
  }
  return values;
}

/// Half of ten steps, then the plain form: forward, backward and recomputation, of each micro-batch.
TEST(Float8, UntilReturnsToThePlainForm) {
  const PluginUse fp8 = {"float8", Json::object()}, half = {"float8", {{"until", 0.5}}};
  const Stack stacks[] = {{},
                          {{"mixed_precision", Json::object()},
                           {"gradient_accumulation", {{"steps", 2}}},
                           checkpointing({{"policy", "full"}})}};
  for (const bool validates : {false, true})
    for (const Stack& stack : stacks) {
      const auto with = [&](const PluginUse& use, int64_t first) {
        Stack all = stack;
        all.push_back(use);
        return steps_with(all, first, validates);
      };
      const auto before = with(fp8, 0), after = steps_with(stack, 0, validates), got = with(half, 0);
      ASSERT_EQ(got.size(), validates ? 19U : 20U);
      for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], i < 10 ? before[i] : after[i]) << i;
      EXPECT_NE(before[10], after[10]);
      // A resumed run counts on.
      EXPECT_EQ(with(half, 7), steps_with(stack, 7, validates));
    }
  const auto trained = [](const Json& options) {
    return losses(Trained(ten_steps({{"float8", options}})).train());
  };
  const auto whole = trained(Json::object()), switched = trained({{"until", 0.5}});
  EXPECT_TRUE(std::equal(whole.begin(), whole.begin() + 5, switched.begin()));
  EXPECT_NE(whole, switched);
}

TEST(Float8, UntilRefusesWhatRecordsAStep) {
  const auto refusal = [](Stack stack, double until, const std::function<void(RunSpec&)>& edit = {}) {
    stack.push_back({"float8", {{"until", until}}});
    RunSpec spec = nano_spec(stack);
    spec.train.warmup = 3;
    if (edit) edit(spec);
    return error_of([&] { Trained trained(spec); });
  };
  EXPECT_EQ(refusal({}, 0.5), "");
  EXPECT_NE(
      refusal({{"compile", Json::object()}}, 0.5).find("compiled units keep the form of the first step"),
      std::string::npos);
  const Stack graphs = {{"fused_adamw", Json::object()}, {"cuda_graphs", Json::object()}};
  EXPECT_NE(refusal(graphs, 0.5).find("a CUDA graph repeats the step that it recorded"), std::string::npos)
      << refusal(graphs, 0.5);
  EXPECT_NE(refusal({}, 0.01).find("until leaves none of the 5 steps in fp8"), std::string::npos);
  EXPECT_NE(
      refusal({}, 0.5, [](RunSpec& spec) { spec.train.epochs = 2; }).find("train.epochs may end the run"),
      std::string::npos);
}

TEST(Float8, FrozenMatricesKeepNoInput) {
  const Stack lora = {{"lora", {{"rank", 4}}}, {"mixed_precision", Json::object()}};
  Stack both = lora;
  both.push_back({"float8", Json::object()});
  const Json plain = Trained(nano_spec(lora)).train(), got = Trained(nano_spec(both)).train();
  EXPECT_LT(apart(got, plain), kTolerance);
  EXPECT_EQ(got["flops_per_token"]["hfu"], plain["flops_per_token"]["hfu"]);
}

TEST(Float8, UnchangedLayersAndUnmetNeedsAreReported) {
  RunSpec spec = nano_spec({{"float8", Json::object()}});
  spec.model["ffn_dim"] = 40;
  Trained odd(spec);
  ASSERT_EQ(odd.session().log().notes().size(), 1U);
  EXPECT_NE(odd.session().log().notes()[0].find("6 linear layers are unchanged"), std::string::npos)
      << odd.session().log().notes()[0];
  spec = nano_spec({{"float8", Json::object()}});
  spec.train.seq_len = 15;
  spec.train.micro_batch = 1;
  EXPECT_NE(error_of([&] { Trained trained(spec); }).find("multiple of 16"), std::string::npos);
  spec.train.dtype = "fp64";
  EXPECT_NE(error_of([&] { Trained trained(spec); }).find("fp64"), std::string::npos);
}
}  // namespace
}  // namespace optrush::testing
