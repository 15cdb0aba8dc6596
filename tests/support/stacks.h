#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "experiment/gate.h"
#include "support/training.h"

namespace optrush::testing {
/// Every plugin that runs on a CPU, with options that change something. The one that compiles has pairs of
/// its own in compile_test.cpp: each costs half a minute.
inline std::vector<PluginUse> shipped() {
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

inline Effect effect_of(const PluginUse& use) {
  return Catalogue::find({OPTRUSH_BUILD_DIR "/plugins"}).at(use.name).effect;
}

/// The stack's losses against the plain form of the same model and the same number of sequences a step.
inline void expect_gate_passes(const std::vector<PluginUse>& stack) {
  Effect widest = Effect::exact;
  std::vector<PluginUse> plain;
  RunSpec spec = nano_spec(stack);
  for (const auto& use : stack) {
    const Effect effect = effect_of(use);
    if (effect == Effect::model) plain.push_back(use);
    if (effect == Effect::batch) spec.train.micro_batch /= 2;
    if (effect != Effect::model && effect != Effect::batch) widest = std::max(widest, effect);
    if (effect == Effect::batch) widest = std::max(widest, Effect::rounding);
  }
  const auto expected = losses(Trained(nano_spec(plain)).train());
  const auto got = losses(Trained(spec).train());
  ASSERT_EQ(got.size(), expected.size());
  const double tolerance =
      tolerance_of(widest, widest == Effect::precision ? Arithmetic::reduced : Arithmetic::fp32);
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_LE(std::abs(got[i] - expected[i]) / expected[i], tolerance) << "step " << i;
}

}  // namespace optrush::testing
