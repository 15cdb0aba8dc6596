// grouped_experts. Products of groups equal separate products of each expert, by a loop and by LibTorch's
// grouped product. Training equals the plain form. Stacks that it would ignore are refused.
#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "grouped_product.h"
#include "joined_memory/joined_memory.h"
#include "measure/step_costs.h"
#include "simulated/device.h"
#include "support/error_of.h"
#include "support/gradcheck.h"
#include "support/training.h"

namespace optrush::testing {
namespace {
using namespace grouped_experts;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// Groups of these lengths: x (N, K), ends, and matrices (F, K) in one memory. One group has no rows.
Tensors grouped_inputs(at::ScalarType type, const std::vector<int>& lengths = {3, 0, 5, 1}, int64_t width = 8,
                       int64_t out = 16) {
  at::manual_seed(3);
  const Tensor ends = at::tensor(lengths, at::kInt).cumsum(0).to(at::kInt);
  Tensors in = {at::randn({ends[-1].item<int>(), width}, type), ends};
  const Tensor all = at::randn({std::ssize(lengths), out, width}, type);
  for (const Tensor& matrix : all.unbind(0)) in.push_back(matrix);
  return in;
}

/// The product of each group's rows separately.
Tensor separate(const Tensors& in) {
  Tensors parts;
  int64_t begin = 0;
  for (int64_t group = 0; group < in[1].numel(); ++group) {
    const int64_t end = in[1][group].item<int>();
    parts.push_back(at::linear(in[0].slice(0, begin, end), in[static_cast<size_t>(group) + 2]));
    begin = end;
  }
  return at::cat(parts);
}

/// The output, and the gradients of a weighted sum of it for x and each matrix.
Tensors output_and_gradients(const std::function<Tensor(const Tensors&)>& function, const Tensors& given) {
  Tensors in = given;
  for (size_t i = 0; i < in.size(); ++i)
    if (i != 1) in[i] = given[i].detach().requires_grad_();
  const Tensor out = function(in);
  at::manual_seed(4);
  (out * at::randn(out.sizes(), out.options())).sum().backward();
  Tensors all = {out.detach()};
  for (size_t i = 0; i < in.size(); ++i)
    if (i != 1) all.push_back(in[i].grad());
  return all;
}

std::function<Tensor(const Tensors&)> product_by(const Differentiable& op) {
  return [&op](const Tensors& in) { return call(op, in).at(0); };
}

TEST(GroupedProduct, EqualsSeparateProducts) {
  const Tensors in = grouped_inputs(at::kDouble);
  const Differentiable op = make_grouped_product({});
  const Tensors is = output_and_gradients(product_by(op), in), expected = output_and_gradients(separate, in);
  ASSERT_EQ(is.size(), expected.size());
  for (size_t i = 0; i < is.size(); ++i) EXPECT_TRUE(at::allclose(is[i], expected[i], 1e-12, 1e-12)) << i;
  EXPECT_EQ(is[3].abs().max().item<double>(), 0) << "the matrix of the empty group";
  Tensors checked = in;
  for (size_t i = 0; i < checked.size(); ++i)
    if (i != 1) checked[i].requires_grad_();
  gradcheck([&](const Tensors& given) { return call(op, given); }, checked);
}

TEST(GroupedProduct, LibTorchGroupedProductGivesTheSame) {
  for (const auto& [type, tolerance] : {std::pair(at::kFloat, 1e-5), std::pair(at::kBFloat16, 2e-2)})
    for (const bool apart : {false, true}) {
      Tensors in = grouped_inputs(type, {3, 0, 5, 1, 0});
      if (apart)
        for (size_t i = 2; i < in.size(); ++i) in[i] = in[i].clone();
      EXPECT_EQ(stack_of({in.begin() + 2, in.end()}).defined(), !apart);
      const Differentiable grouped =
          make_grouped_product({.products = Products::grouped, .clear_idle = apart});
      const Tensors is = output_and_gradients(product_by(grouped), in),
                    expected = output_and_gradients(separate, in);
      for (size_t i = 0; i < is.size(); ++i)
        EXPECT_TRUE(at::allclose(is[i], expected[i], tolerance, tolerance))
            << i << " of " << c10::toString(type);
    }
}

TEST(GroupedProduct, NoRowsGiveAnEmptyResult) {
  const Tensors in = grouped_inputs(at::kFloat, {0, 0, 0});
  for (const auto products : {Products::one_by_one, Products::grouped}) {
    const Differentiable op = make_grouped_product({.products = products});
    const auto result = op->forward(in);
    EXPECT_EQ(result.outputs[0].sizes(), at::IntArrayRef({0, 16}));
    const Tensors gradients = op->backward(result.saved, {result.outputs[0]});
    EXPECT_EQ(gradients[0].sizes(), in[0].sizes());
    for (size_t i = 2; i < in.size(); ++i) EXPECT_EQ(gradients[i].abs().max().item<double>(), 0) << i;
  }
}

TEST(GroupedProduct, FrozenMatricesKeepNoRowsAndGetNoGradients) {
  const Tensors in = grouped_inputs(at::kFloat);
  for (const auto products : {Products::one_by_one, Products::grouped}) {
    const Differentiable frozen = make_grouped_product({.products = products, .trains = false});
    const auto result = frozen->forward(in);
    EXPECT_FALSE(result.saved.at(0).defined());
    const Tensors gradients = frozen->backward(result.saved, {at::ones_like(result.outputs[0])});
    ASSERT_EQ(gradients.size(), in.size());
    EXPECT_TRUE(gradients[0].defined());
    for (size_t i = 1; i < gradients.size(); ++i) EXPECT_FALSE(gradients[i].defined()) << i;
  }
}

TEST(GroupedProduct, GpuFormIsOneProductWithoutHostWaits) {
  const at::Device gpu = simulated::open(at::kCUDA);
  constexpr int64_t kRows = 4096, kWidth = 64, kOut = 128, kGroups = 8;
  const auto options = at::TensorOptions(at::kBFloat16).device(gpu);
  Tensors in = {at::empty({kRows, kWidth}, options), at::empty({kGroups}, options.dtype(at::kInt))};
  for (const Tensor& matrix : at::empty({kGroups, kOut, kWidth}, options).unbind(0)) in.push_back(matrix);
  const Params none{};
  StepCosts costs(none, gpu);
  costs.enter(Bucket::forward);
  const Differentiable op = make_grouped_product({.products = Products::grouped});
  const auto result = op->forward(in);
  costs.enter(Bucket::backward);
  const Tensors gradients = op->backward(result.saved, {at::empty_like(result.outputs[0])});
  costs.stop();
  EXPECT_EQ(result.outputs[0].sizes(), at::IntArrayRef({kRows, kOut}));
  EXPECT_EQ(gradients[0].sizes(), in[0].sizes());
  EXPECT_EQ(gradients[2].sizes(), in[2].sizes());
  constexpr double kFlops = 2.0 * kRows * kWidth * kOut;
  // A product has two kernels: one finds the groups, one multiplies.
  const Json phases = costs.to_json().at("phases");
  EXPECT_EQ(phases["forward"]["launches"], 2);
  EXPECT_EQ(phases["backward"]["launches"], 4);
  EXPECT_EQ(phases["forward"]["matmul_flops"], kFlops);
  EXPECT_EQ(phases["backward"]["matmul_flops"], 2 * kFlops);
  EXPECT_EQ(costs.total().host_waits, 0);
}

TEST(JoinedMemory, UnevenlySpacedMatricesAreNotAStack) {
  const Tensor all = at::randn({5, 4, 8});
  const auto at_places = [&](std::initializer_list<int64_t> places) {
    Tensors matrices;
    for (const int64_t place : places) matrices.push_back(all[place]);
    return stack_of(matrices);
  };
  EXPECT_TRUE(at::equal(at_places({0, 2, 4}), all.slice(0, 0, 5, 2)));
  EXPECT_TRUE(at::equal(at_places({3}), all.slice(0, 3, 4)));
  EXPECT_FALSE(at_places({0, 1, 3}).defined());
  EXPECT_FALSE(at_places({2, 1, 0}).defined());
  EXPECT_FALSE(stack_of({all[0], at::randn({4, 8})}).defined());
}

const PluginUse kGrouped = {"grouped_experts", Json::object()};

RunSpec mixture(std::vector<PluginUse> plugins = {}, const Json& choices = Json::object()) {
  RunSpec spec = nano_spec(std::move(plugins));
  Json model = {{"n_experts", 5}, {"experts_per_token", 2}, {"expert_ffn_dim", 24}};
  model.update(choices);
  spec.model.update(model);
  spec.train.dtype = "fp64";
  return spec;
}

TEST(GroupedExperts, TrainLikeThePlainForm) {
  const std::vector<Json> choices = {Json::object(),
                                     {{"shared_expert_ffn_dim", 16}},
                                     {{"dense_layers", {0}}, {"normalize_router", false}},
                                     {{"activation", "gelu_tanh"}},
                                     {{"activation", "relu2"}, {"layers_without_mlp", {0}}}};
  const std::vector<std::vector<PluginUse>> stacks = {
      {}, {{"activation_checkpointing"}}, {{"fused_kernels"}, {"fused_projections"}}, {{"lora"}}};
  for (const Json& choice : choices)
    for (const auto& stack : stacks) {
      if (&choice != &choices.front() && &stack != &stacks.front()) continue;
      const auto expected = losses(Trained(mixture(stack, choice)).train());
      auto with = stack;
      with.push_back(kGrouped);
      const auto is = losses(Trained(mixture(with, choice)).train());
      ASSERT_EQ(is.size(), expected.size());
      for (size_t i = 0; i < is.size(); ++i)
        EXPECT_NEAR(is[i], expected[i], 1e-12) << choice << (stack.empty() ? "" : stack.front().name);
    }
}

TEST(GroupedExperts, MatricesShareOneAllocationAndStayParameters) {
  Trained trained(mixture({kGrouped}));
  Tensors gates;
  for (int i = 0; i < 5; ++i)
    gates.push_back(trained.session()
                        .params()
                        .at("model.layers.1.mlp.experts." + std::to_string(i) + ".gate_proj.weight")
                        .leaf.detach());
  EXPECT_TRUE(stack_of(gates).defined());
  const Tensor before = stack_of(gates).clone();
  trained.train();
  EXPECT_FALSE(at::equal(stack_of(gates), before))
      << "the optimizer changes the memory that the product reads";
}

TEST(GroupedExperts, PluginsThatWouldBeIgnoredAreRefusedByName) {
  const auto refusal = [](std::vector<PluginUse> plugins, const char* dtype = "fp32") {
    plugins.push_back(kGrouped);
    RunSpec spec = mixture(std::move(plugins));
    spec.train.dtype = dtype;
    return error_of([&] { Trained{spec}; });
  };
  const PluginUse lora = {"lora", {{"target_modules", {"down_proj"}}}};
  EXPECT_THAT(refusal({lora}), AllOf(HasSubstr("grouped_experts would ignore 'model.layers.0.mlp.experts.0."
                                               "down_proj.lora_A.weight'"),
                                     HasSubstr("remove the experts from the adapter's targets")));
  EXPECT_THAT(refusal({{"float8"}}), HasSubstr("plugins 'float8' and 'grouped_experts' conflict"));
  EXPECT_THAT(refusal({{"lora"}, {"nf4"}}), HasSubstr("plugins 'grouped_experts' and 'nf4' conflict"));
  EXPECT_THAT(refusal({{"swiglu_recompute"}}),
              HasSubstr("plugins 'grouped_experts' and 'swiglu_recompute' conflict"));
  RunSpec biased = mixture({kGrouped});
  biased.model["expert_bias"] = true;
  EXPECT_THAT(error_of([&] { Trained{biased}; }), HasSubstr("grouped_experts does not support expert_bias"));
  RunSpec recomputed = mixture({{"swiglu_recompute"}});
  recomputed.model["expert_bias"] = true;
  EXPECT_THAT(error_of([&] { Trained{recomputed}; }),
              HasSubstr("the model needs 'biases' of mlp; 'swiglu_recompute' does not offer it"));
  for (const Json& router : {Json{{"scores", "sigmoid"}}, Json{{"bias", "choice"}}}) {
    RunSpec of_others = mixture({{"router_losses"}});
    of_others.model["router"] = router;
    EXPECT_THAT(error_of([&] { Trained{of_others}; }), HasSubstr("the largest shares of a softmax only"));
  }
  RunSpec dense = nano_spec({kGrouped});
  EXPECT_THAT(error_of([&] { Trained{dense}; }), HasSubstr("this model has no mixture of experts"));
}
}  // namespace
}  // namespace optrush::testing
