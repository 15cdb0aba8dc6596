// The shipped plugins: the order of stacking does not matter. And properties of single plugins that `optrush
// check` does not cover.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "plugin/loader.h"
#include "spec/spec_json.h"
#include "support/training.h"

namespace optrush::testing {
namespace {
/// A large stack that edits every slot that plugins edit on a CPU.
std::vector<PluginUse> stack() {
  return {{"activation_checkpointing", Json::object()},
          {"clip_grad_norm", {{"max_norm", 0.5}}},
          {"cpu_allocator", Json::object()},
          {"flash_attention", Json::object()},
          {"fused_adamw", Json::object()},
          {"fused_kernels", Json::object()},
          {"fused_linear_cross_entropy", {{"chunk", 20}}},
          {"gradient_accumulation", {{"steps", 2}}},
          {"lora", {{"rank", 4}}},
          {"mixed_precision", {{"dtype", "bf16"}}},
          {"swiglu_recompute", {{"level", 1}}}};
}

Json recorded(const Recipe& recipe) {
  Json slots = Json::array();
  for (const SlotInfo* slot : recipe.slots()) {
    Json wraps = Json::array();
    for (const Edit& wrap : slot->wraps()) wraps.push_back({to_string(wrap.phase), wrap.plugin});
    slots.push_back({slot->name(), slot->base().plugin, wraps});
  }
  return {{"slots", slots}, {"train", to_json(recipe.spec().train)}};
}

TEST(ShippedPlugins, OrderOfApplyDoesNotChangeTheRecipe) {
  std::mt19937 random(7);
  std::optional<Json> expected;
  for (int round = 0; round < 20; ++round) {
    const RunSpec spec = nano_spec(stack());
    auto plugins = load_plugins(spec, Catalogue::of(spec));
    std::shuffle(plugins.begin(), plugins.end(), random);
    RunRecipe recipe(spec);
    apply_plugins(plugins, recipe);
    const Json got = recorded(recipe);
    if (!expected) expected = got;
    EXPECT_EQ(got.dump(), expected->dump());
  }
}

TEST(ShippedPlugins, LowPrecisionSumsHaveTheEffectPrecision) {
  const auto effect_of = [](const PluginUse& use) {
    const RunSpec spec = nano_spec({use});
    const auto plugins = load_plugins(spec, Catalogue::of(spec));
    return std::string(to_string(plugins[0].description.effect_with(plugins[0].options.json())));
  };
  EXPECT_EQ(effect_of({"ddp"}), "rounding");
  EXPECT_EQ(effect_of({"ddp", {{"compress", "bf16"}}}), "precision");
  EXPECT_EQ(effect_of({"fsdp", {{"stage", 2}}}), "rounding");
  EXPECT_EQ(effect_of({"fsdp", {{"reduce_type", "fp32"}}}), "rounding");
  EXPECT_EQ(effect_of({"fsdp", {{"reduce_type", "bf16"}}}), "precision");
  EXPECT_EQ(effect_of({"fsdp", {{"parameter_type", "bf16"}}}), "precision");
}

TEST(ShippedPlugins, AnOverflowingLossScaleSkipsTheStepAndBacksOff) {
  RunSpec spec = nano_spec({{"mixed_precision", {{"dtype", "fp16"}, {"initial_scale", 1e9}}}});
  spec.train.steps = 14;
  const Json result = Trained(spec).train();
  EXPECT_TRUE(result["steps"][0]["grad_norm"].is_null());
  EXPECT_TRUE(result["steps"].back()["grad_norm"].is_number());
  // The scale affects only the backward, so the first loss equals the loss with a scale that fits. The second
  // differs, because the update was skipped.
  spec.plugins[0].options["initial_scale"] = 1024;
  spec.train.steps = 1;
  const auto fitting = losses(Trained(spec).train());
  EXPECT_EQ(losses(result)[0], fitting[0]);
  EXPECT_NE(losses(result)[1], fitting[1]);
}

TEST(ShippedPlugins, ClippingScalesDownAndNeverUp) {
  /// The gradients of the first step that the optimizer receives.
  const auto gradients = [](std::vector<PluginUse> plugins) {
    Tensors seen;
    Trained trained(nano_spec(std::move(plugins)), [&](Recipe& recipe) {
      recipe.gradients.wrap(Phase::optimizer, [&](auto inner) {
        return [&seen, inner, done = false](Gradients& gradients, Update& update) mutable {
          inner(gradients, update);
          if (std::exchange(done, true)) return;
          for (const Tensor& gradient : gradients.tensors()) seen.push_back(gradient.clone().flatten());
        };
      });
    });
    trained.train();
    return at::cat(seen);
  };
  const Tensor plain = gradients({});
  const double norm = plain.norm().item<double>();
  EXPECT_TRUE(at::equal(gradients({{"clip_grad_norm", {{"max_norm", 1e6}}}}), plain));
  const Tensor clipped = gradients({{"clip_grad_norm", {{"max_norm", norm / 4}}}});
  EXPECT_LT((clipped - plain / 4).abs().max().item<double>(), 1e-5 * plain.abs().max().item<double>());
}

TEST(ShippedPlugins, LoraFreezesTheModelAndCountsItsFlops) {
  Trained trained(nano_spec({{"lora", {{"rank", 4}, {"target_modules", {"q_proj", "down_proj"}}}}}));
  int64_t trainable = 0;
  for (Param* param : trained.session().params().all()) {
    const bool update = param->name.find(".lora_") != std::string::npos;
    EXPECT_EQ(param->trainable, update) << param->name;
    if (param->trainable) trainable += param->numel();
  }
  // Two blocks of q_proj (32 -> 32) and down_proj (48 -> 32), rank 4.
  EXPECT_EQ(trainable, 2 * (4 * (32 + 32) + 4 * (48 + 32)));
  EXPECT_THROW(Trained(nano_spec({{"lora", {{"target_modules", {"qproj"}}}}})), Error);
}

TEST(ShippedPlugins, LoraRefusesAModelWithoutLinearLayers) {
  RunSpec spec = nano_spec({{"lora", Json::object()}});
  spec.model_kind = "operator";
  spec.model = validate_model("operator", {{"op", "norm"}, {"dim", 32}}, "test");
  try {
    Trained trained(spec);
    ADD_FAILURE() << "not refused";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("the model has no linear layers"), std::string::npos) << e.what();
  }
}

TEST(ShippedPlugins, DropoutDependsOnlyOnTheSeed) {
  RunSpec spec = nano_spec({{"lora", {{"rank", 4}, {"dropout", 0.5}}}});
  const auto first = losses(Trained(spec).train());
  EXPECT_EQ(losses(Trained(spec).train()), first);
  auto without = spec;
  without.plugins[0].options["dropout"] = 0;
  EXPECT_NE(losses(Trained(without).train()), first);
}

TEST(ShippedPlugins, RecomputationRepeatsTheDropout) {
  const PluginUse lora = {
      "lora", {{"rank", 4}, {"dropout", 0.5}, {"target_modules", {"q_proj", "gate_proj", "up_proj"}}}};
  const auto expected = losses(Trained(nano_spec({lora})).train());
  EXPECT_EQ(losses(Trained(nano_spec({lora, {"activation_checkpointing", Json::object()}})).train()),
            expected);
  const auto got = losses(Trained(nano_spec({lora, {"swiglu_recompute", {{"level", 1}}}})).train());
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i], expected[i], 1e-6 * expected[i]) << "step " << i;
}

TEST(ShippedPlugins, EveryNthBlockKeepsLessThanNoneAndMoreThanFull) {
  const auto activations = [](std::vector<PluginUse> stack) {
    RunSpec spec = nano_spec(std::move(stack));
    spec.model["n_layers"] = 4;
    return Trained(spec).train()["memory"]["parts"]["activations"].get<int64_t>();
  };
  const int64_t none = activations({});
  const int64_t full = activations({{"activation_checkpointing", Json::object()}});
  const int64_t every = activations({{"activation_checkpointing", {{"policy", "every"}, {"every", 2}}}});
  EXPECT_LT(full, every);
  EXPECT_LT(every, none);
}

TEST(ShippedPlugins, OptionsThatWouldBeIgnoredAreErrors) {
  EXPECT_THROW(Trained(nano_spec({{"activation_checkpointing", {{"policy", "full"}, {"every", 3}}}})), Error);
  EXPECT_THROW(Trained(nano_spec({{"tf32", Json::object()}})), Skip);
  EXPECT_THROW(Trained(nano_spec({{"flash_attention", {{"kernel", "cudnn"}}}})), Skip);
  RunSpec spec = nano_spec({{"mixed_precision", Json::object()}});
  spec.train.dtype = "fp64";
  EXPECT_THROW(Trained{spec}, Error);
}
}  // namespace
}  // namespace optrush::testing
