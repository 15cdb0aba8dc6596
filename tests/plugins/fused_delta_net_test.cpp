// The fused operators of Gated DeltaNet against the plain forms: values, every gradient, and the plugin in
// training.
#include <ATen/Functions.h>
#include <gtest/gtest.h>
#include <hwy/targets.h>

#include "plugins/delta_net_cases.h"
#include "support/error_of.h"
#include "support/gradcheck.h"
#include "support/instruction_set.h"
#include "support/training.h"

namespace optrush::testing {
namespace {
TEST(FusedDeltaNet, EqualsThePlainFormsInEachType) {
  for (const DeltaNetOperator& c : kDeltaNetOperators)
    for (const DeltaNetSizes& sizes : kRuleSizes)
      for (const auto& [type, tolerance] : kDeltaNetTolerances)
        for (const bool packed : {false, true}) {
          SCOPED_TRACE(std::string(c.name) + ", " + c10::toString(type) + ", " +
                       std::to_string(sizes.positions) + " positions" + (packed ? ", packed" : ""));
          expect_like_plain(c, sizes, type, tolerance, packed);
        }
}

TEST(FusedDeltaNet, EqualsThePlainFormsWithEachInstructionSetOfThisMachine) {
  for (int64_t rest = hwy::SupportedTargets(); rest != 0; rest &= rest - 1) {
    const InstructionSet chosen(rest & -rest);
    SCOPED_TRACE(hwy::TargetName(rest & -rest));
    for (const DeltaNetOperator& c : kDeltaNetOperators)
      for (const auto& [type, tolerance] : kDeltaNetTolerances)
        expect_like_plain(c, {}, type, tolerance, /*packed=*/true);
  }
}

TEST(FusedDeltaNet, PassesGradcheck) {
  const DeltaNetSizes sizes{
      .batch = 1, .key_heads = 1, .value_heads = 2, .positions = 70, .key_width = 3, .value_width = 2};
  for (const DeltaNetOperator& c : kDeltaNetOperators) {
    SCOPED_TRACE(c.name);
    Tensors in = c.inputs(sizes, at::kDouble);
    for (Tensor& x : in) x.requires_grad_();
    const Tensor documents = documents_of(sizes.batch, sizes.positions);
    gradcheck([&](const Tensors& given) { return Tensors{c.fused(given, documents)}; }, in);
  }
}

TEST(FusedDeltaNet, AcceptsAnyStrides) {
  for (const DeltaNetOperator& c : kDeltaNetOperators) {
    Tensors in = c.inputs({}, at::kDouble);
    const Tensors expected = results(c.fused, in, {}, at::kDouble);
    for (Tensor& x : in) {
      const Tensor padded = at::empty_like(x.repeat_interleave(2, -1));
      x = padded.slice(-1, 0, padded.size(-1), 2).copy_(x);
    }
    const Tensors got = results(c.fused, in, {}, at::kDouble);
    for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(at::equal(got[i], expected[i])) << c.name << ' ' << i;
  }
}

TEST(FusedDeltaNet, EachRunGivesTheSameBits) {
  for (const DeltaNetOperator& c : kDeltaNetOperators) {
    const Tensors in = c.inputs({}, at::kFloat);
    const Tensors first = results(c.fused, in, {}, at::kFloat), second = results(c.fused, in, {}, at::kFloat);
    for (size_t i = 0; i < first.size(); ++i)
      EXPECT_TRUE(at::equal(first[i], second[i])) << c.name << ' ' << i;
  }
}

RunSpec delta_net_spec(std::vector<PluginUse> plugins) {
  RunSpec spec = nano_spec(std::move(plugins));
  spec.train.dtype = "fp64";
  spec.model["delta_net"] = {{"key_heads", 2}, {"value_heads", 4}, {"key_dim", 8}, {"value_dim", 6}};
  return spec;
}

TEST(FusedDeltaNetPlugin, TrainsLikeThePlainForms) {
  const auto expected = losses(Trained(delta_net_spec({})).train());
  const PluginUse recomputed = {"activation_checkpointing", Json::object()};
  const std::vector<std::vector<PluginUse>> stacks = {
      {{"fused_delta_net", {{"kernels", {"delta_rule"}}}}},
      {{"fused_delta_net", {{"kernels", {"convolution"}}}}},
      {{"fused_delta_net", Json::object()}},
      {{"fused_delta_net", Json::object()}, recomputed},
      {{"fused_delta_net", Json::object()},
       {"activation_checkpointing", {{"policy", "selective"}, {"keep", {"delta_rule", "convolution"}}}}}};
  for (const auto& stack : stacks) {
    const auto got = losses(Trained(delta_net_spec(stack)).train());
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-12);
  }
}

TEST(FusedDeltaNetPlugin, KeepsLessForTheBackward) {
  const auto activations = [](std::vector<PluginUse> stack) {
    return Trained(delta_net_spec(std::move(stack))).train()["memory"]["parts"]["activations"].get<int64_t>();
  };
  EXPECT_LT(activations({{"fused_delta_net", Json::object()}}), activations({}) * 3 / 5);
}

TEST(FusedDeltaNetPlugin, IsRefusedWithoutGatedDeltaNet) {
  const auto message = error_of([] { Trained(nano_spec({{"fused_delta_net", Json::object()}})).train(); });
  EXPECT_NE(message.find("this model has no Gated DeltaNet"), std::string::npos) << message;
}
}  // namespace
}  // namespace optrush::testing
