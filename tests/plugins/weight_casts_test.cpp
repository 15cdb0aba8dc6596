// Mixed precision casts each matrix once per step.
#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "measure/memory.h"
#include "precision.h"

namespace optrush::testing {
namespace {
int64_t matrices_of(Run& run) {
  std::set<const Param*> found;
  for (const Module* module : run.modules("linear"))
    found.insert(module->params.begin(), module->params.end());
  return static_cast<int64_t>(found.size());
}

/// Casts at each use, as autocast does without the copies.
void without_copies(Recipe& recipe) {
  recipe.on(Event::materialized, Phase::measure, [](Run& run) {
    for (Param* param : run.params().all()) param->compute_dtype.reset();
  });
}

/// Compares the casts of a short run with `steps` x matrices, and its losses with casts at each use.
void expect_one_cast_a_step(const Stack& beside, const std::string& dtype = "bf16", bool tied = false) {
  Stack stack = {{"mixed_precision", {{"dtype", dtype}}}};
  stack.insert(stack.end(), beside.begin(), beside.end());
  RunSpec spec = nano_spec(stack);
  spec.model["tie_embeddings"] = tied;
  Trained trained(spec);
  Json result;
  {
    const CallCount count(trained.session().params());
    result = trained.train();
    EXPECT_EQ(count.total() - norms_of_a_run(trained.session()), 3 * matrices_of(trained.session()));
  }
  EXPECT_EQ(losses(result), losses(Trained(spec, without_copies).train()));
}

TEST(WeightCasts, OneCastPerStepInEveryStack) {
  const PluginUse accumulation = {"gradient_accumulation", {{"steps", 2}}};
  const PluginUse lora = {"lora", {{"rank", 4}, {"target_modules", {"q_proj", "down_proj"}}}};
  const std::pair<std::string, Stack> cases[] = {
      {"alone", {}},
      {"micro-batches", {accumulation}},
      {"full", {checkpointing({{"policy", "full"}}), accumulation}},
      {"every", {checkpointing({{"policy", "every"}})}},
      {"selective", {checkpointing({{"policy", "selective"}})}},
      {"budget", {checkpointing({{"policy", "budget"}})}},
      {"offload", {checkpointing({{"policy", "offload"}}), accumulation}},
      {"frozen", {lora, accumulation}},
      {"frozen, recomputed", {lora, checkpointing(Json::object())}},
      {"pairs",
       {{"swiglu_recompute", Json::object()}, {"fused_linear_cross_entropy", {{"chunk", 20}}}, accumulation}},
  };
  for (const auto& [name, beside] : cases) {
    SCOPED_TRACE(name);
    expect_one_cast_a_step(beside);
  }
}

TEST(WeightCasts, TiedMatricesAreLookedUpInFullPrecisionAndCastOnce) {
  expect_one_cast_a_step({checkpointing(Json::object())}, "bf16", /*tied=*/true);
}

TEST(WeightCasts, LossScaleDoesNotAddCasts) {
  expect_one_cast_a_step({{"gradient_accumulation", {{"steps", 2}}}}, "fp16");
}

TEST(WeightCasts, CopiesAreFreedAfterEachStepAndCountAsParameters) {
  install_cpu_memory_tracking();
  const auto memory = [](int64_t steps, const Stack& stack) {
    RunSpec spec = nano_spec(stack);
    spec.train.steps = steps;
    const int64_t before = cpu_allocated();
    Json found = Trained(spec).train()["memory"];
    found["peak_allocated"] = found["peak_allocated"].get<int64_t>() - before;
    return found;
  };
  const PluginUse mixed = {"mixed_precision", Json::object()};
  EXPECT_EQ(memory(2, {mixed})["peak_allocated"], memory(6, {mixed})["peak_allocated"]);

  Trained trained(nano_spec({mixed}));
  int64_t numbers = 0;
  for (const Module* module : trained.session().modules("linear")) numbers += module->params[0]->numel();
  const auto parameters = [&](const Stack& stack) {
    return memory(2, stack)["parts"]["parameters"].get<int64_t>();
  };
  EXPECT_EQ(parameters({mixed}) - parameters({}), 2 * numbers);
}

TEST(WeightCasts, CopyIsRenewedWhenTheLeafChanges) {
  Param param{.name = "w"};
  param.leaf = at::ones({2, 2}).requires_grad_();
  param.compute_dtype = at::kBFloat16;
  Tensor first;
  {
    const at::NoGradGuard no_grad;
    first = param.compute_value();
    EXPECT_TRUE(param.compute_value().is_same(first));
  }
  EXPECT_TRUE(first.requires_grad()) << "the cast is made without gradients and used with them";
  param.compute_value().sum().backward();
  param.compute_value().sum().backward();
  EXPECT_EQ(param.leaf.grad().scalar_type(), at::kFloat);
  EXPECT_TRUE(at::equal(param.leaf.grad(), at::full({2, 2}, 2)));
  param.leaf.detach().mul_(3);  // as an optimizer changes it
  EXPECT_EQ(param.compute_value()[0][0].item<double>(), 3);
  param.leaf = at::zeros({2, 2});
  EXPECT_EQ(param.compute_value()[0][0].item<double>(), 0);
}
}  // namespace
}  // namespace optrush::testing
