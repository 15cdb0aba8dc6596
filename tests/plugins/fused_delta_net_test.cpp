// The fused operators of Gated DeltaNet against the plain forms: values, every gradient, and the plugin in
// training.
#include <ATen/Functions.h>
#include <gtest/gtest.h>
#include <hwy/targets.h>

#include "model/delta_rule.h"
#include "optimizations/fused_delta_net/pairs.h"
#include "support/error_of.h"
#include "support/gradcheck.h"
#include "support/instruction_set.h"
#include "support/training.h"

namespace optrush::testing {
namespace {
struct Sizes {
  int64_t batch = 2, key_heads = 2, value_heads = 4, positions = 150, key_width = 12, value_width = 20;
};
// one position, less than a chunk, a chunk, three chunks; widths that fill vectors, and others
const Sizes kRuleSizes[] = {{.positions = 1},
                            {.batch = 1, .key_heads = 1, .value_heads = 1, .positions = 39},
                            {.positions = 64, .key_width = 16, .value_width = 16},
                            {},
                            {.batch = 1, .key_heads = 3, .value_heads = 3, .key_width = 5, .value_width = 3},
                            {.batch = 0}};
const std::pair<at::ScalarType, double> kTolerances[] = {
    {at::kDouble, 1e-11}, {at::kFloat, 2e-5}, {at::kBFloat16, 1.0 / 64}, {at::kHalf, 1.0 / 256}};

/// Documents of lengths that cross the borders of chunks.
Tensor documents_of(const Sizes& sizes) {
  const Tensor numbers = at::arange(sizes.positions, at::kInt);
  return numbers.gt(3)
      .to(at::kInt)
      .add(numbers.gt(60))
      .add(numbers.gt(64))
      .add(numbers.gt(130))
      .to(at::kInt)
      .repeat({sizes.batch, 1});
}

Tensors with_documents(Tensors in, const Tensor& documents) {
  if (documents.defined()) in.push_back(documents);
  return in;
}

/// {q, k, v, log_decay, beta}: heads in memory as linears write them.
Tensors rule_inputs(const Sizes& s, at::ScalarType type) {
  at::manual_seed(3);
  const auto wide = type == at::kDouble ? at::kDouble : at::kFloat;
  const auto heads = [&](int64_t count, int64_t width) {
    return at::randn({s.batch, s.positions, count, width}, at::kDouble).to(type).transpose(1, 2);
  };
  const auto gates = [&] {
    return at::rand({s.batch, s.positions, s.value_heads}, at::kDouble).to(wide).transpose(1, 2);
  };
  return {heads(s.key_heads, s.key_width), heads(s.key_heads, s.key_width),
          heads(s.value_heads, s.value_width), gates() * -0.2, gates()};
}
Tensor plain_rule(const Tensors& in, const Tensor& documents) {
  return plain::gated_delta_rule(
      {.q = in[0], .k = in[1], .v = in[2], .log_decay = in[3], .beta = in[4], .documents = documents});
}
Tensor fused_rule(const Tensors& in, const Tensor& documents) {
  return call(fused::delta_rule(), with_documents(in, documents)).front();
}

/// {x, weight}
Tensors convolution_inputs(const Sizes& s, at::ScalarType type) {
  at::manual_seed(4);
  return {at::randn({s.batch, s.positions, s.value_width}, at::kDouble).to(type),
          at::randn({s.value_width, 1, 4}, at::kDouble).to(type)};
}
Tensor plain_convolution(const Tensors& in, const Tensor& documents) {
  return at::silu(plain::causal_convolution(in[0], in[1], documents));
}
Tensor fused_convolution(const Tensors& in, const Tensor& documents) {
  return call(fused::convolution(), with_documents(in, documents)).front();
}

using Operator = Tensor (*)(const Tensors&, const Tensor& documents);
struct DeltaNetOperator {
  const char* name;
  Tensors (*inputs)(const Sizes&, at::ScalarType);
  Operator plain, fused;
};
const DeltaNetOperator kOperators[] = {
    {"delta rule", rule_inputs, plain_rule, fused_rule},
    {"convolution", convolution_inputs, plain_convolution, fused_convolution}};

/// The output and the gradients of all inputs, for the same random gradient of the output.
Tensors results(Operator run, const Tensors& given, const Tensor& documents, at::ScalarType type) {
  Tensors in;
  for (const Tensor& x : given) in.push_back(x.detach().requires_grad_());
  const Tensor out = run(in, documents);
  at::manual_seed(5);
  (out * at::randn(out.sizes(), at::kDouble).to(type).to(out.scalar_type())).sum(at::kDouble).backward();
  Tensors all = {out.detach()};
  for (const Tensor& x : in) all.push_back(x.grad());
  return all;
}

/// The fused form in `type` beside the plain one in fp64 on the same numbers.
void expect_like_plain(const DeltaNetOperator& c, const Sizes& sizes, at::ScalarType type, double tolerance,
                       bool packed) {
  const Tensors in = c.inputs(sizes, type);
  Tensors wide;
  for (const Tensor& x : in) wide.push_back(x.to(at::kDouble));
  const Tensor documents = packed ? documents_of(sizes) : Tensor();
  const Tensors got = results(c.fused, in, documents, type),
                expected = results(c.plain, wide, documents, type);
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(got[i].sizes(), expected[i].sizes());
    EXPECT_EQ(got[i].scalar_type(),
              i == 0 ? in[c.plain == plain_rule ? 2 : 0].scalar_type() : in[i - 1].scalar_type());
    if (got[i].numel() == 0) continue;
    const double scale = std::max(1.0, expected[i].abs().max().item<double>());
    EXPECT_LE((got[i].to(at::kDouble) - expected[i]).abs().max().item<double>(), tolerance * scale) << i;
  }
}

TEST(FusedDeltaNet, EqualsThePlainFormsInEachType) {
  for (const DeltaNetOperator& c : kOperators)
    for (const Sizes& sizes : kRuleSizes)
      for (const auto& [type, tolerance] : kTolerances)
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
    for (const DeltaNetOperator& c : kOperators)
      for (const auto& [type, tolerance] : kTolerances)
        expect_like_plain(c, {}, type, tolerance, /*packed=*/true);
  }
}

TEST(FusedDeltaNet, PassesGradcheck) {
  const Sizes sizes{
      .batch = 1, .key_heads = 1, .value_heads = 2, .positions = 70, .key_width = 3, .value_width = 2};
  for (const DeltaNetOperator& c : kOperators) {
    SCOPED_TRACE(c.name);
    Tensors in = c.inputs(sizes, at::kDouble);
    for (Tensor& x : in) x.requires_grad_();
    const Tensor documents = documents_of(sizes);
    gradcheck([&](const Tensors& given) { return Tensors{c.fused(given, documents)}; }, in);
  }
}

TEST(FusedDeltaNet, AcceptsAnyStrides) {
  for (const DeltaNetOperator& c : kOperators) {
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
  for (const DeltaNetOperator& c : kOperators) {
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
