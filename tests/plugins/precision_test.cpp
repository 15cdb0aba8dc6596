// What training in fewer bits promises: matrices are cast once a step; bf16 weights follow their fp32
// masters; fp8 products are those of the rounded numbers.
#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <limits>
#include <set>

#include "base/spec_json.h"
#include "experiment/gate.h"
#include "float8/linear_pair.h"
#include "gpu/update.h"
#include "master_adamw.h"
#include "measure/memory.h"
#include "support/error_of.h"
#include "support/training.h"

namespace optrush::testing {
namespace {
/// Counts calls of an operator on parameters while it lives. Callbacks of RecordFunction have no context.
class CallCount {
 public:
  explicit CallCount(Params& params, std::string_view op = "aten::_to_copy") {
    counted() = op;
    storages().clear();
    for (const Param* param : params.all()) storages().insert(storage_of(param->leaf));
    calls() = 0;
    handle_ = at::addGlobalCallback(
        at::RecordFunctionCallback([](const at::RecordFunction& fn) -> std::unique_ptr<at::ObserverContext> {
          const std::string_view name = fn.name();
          if (name == counted() && storages().contains(storage_of(fn.inputs()[0].toTensor()))) ++calls();
          return nullptr;
        })
            .needsInputs(true)
            .scopes({at::RecordScope::FUNCTION}));
  }
  ~CallCount() { at::removeCallback(handle_); }
  CallCount(const CallCount&) = delete;
  CallCount& operator=(const CallCount&) = delete;
  int64_t total() const { return calls(); }

 private:
  static const void* storage_of(const Tensor& tensor) {
    return tensor.has_storage() ? tensor.storage().unsafeGetStorageImpl() : nullptr;
  }
  static std::set<const void*>& storages() {
    static std::set<const void*> set;
    return set;
  }
  static std::string_view& counted() {
    static std::string_view op;
    return op;
  }
  static std::atomic<int64_t>& calls() {
    static std::atomic<int64_t> count{0};
    return count;
  }
  at::CallbackHandle handle_ = 0;
};

int64_t matrices_of(Run& run) {
  std::set<const Param*> found;
  for (const Site* site : run.sites("linear")) found.insert(site->params.begin(), site->params.end());
  return static_cast<int64_t>(found.size());
}

/// A run takes a norm of each trained parameter in double, before and after all steps.
int64_t norms_of_a_run(Session& session) {
  return 2 * static_cast<int64_t>(session.data_parallel().shards().size());
}

/// As autocast does without the copies: at each use.
void without_copies(Recipe& recipe) {
  recipe.on(Event::placed, Phase::measure, [](Run& run) {
    for (Param* param : run.params().all()) param->operand_type.reset();
  });
}

using Stack = std::vector<PluginUse>;

/// Casts in all steps of a short run against `steps` x matrices, and its losses against casts at each use.
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

PluginUse checkpointing(Json options) { return {"activation_checkpointing", std::move(options)}; }

TEST(WeightCasts, OnceAStepWhateverUsesThem) {
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

TEST(WeightCasts, TiedMatricesAreLookedUpWithAllBitsAndCastOnce) {
  expect_one_cast_a_step({checkpointing(Json::object())}, "bf16", /*tied=*/true);
}

TEST(WeightCasts, TheLossScaleChangesNothingAboutThem) {
  expect_one_cast_a_step({{"gradient_accumulation", {{"steps", 2}}}}, "fp16");
}

TEST(WeightCasts, CopiesAreGoneAfterEachStepAndCountAsParameters) {
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
  for (const Site* site : trained.session().sites("linear")) numbers += site->params[0]->numel();
  const auto parameters = [&](const Stack& stack) {
    return memory(2, stack)["predicted"]["parameters"].get<int64_t>();
  };
  EXPECT_EQ(parameters({mixed}) - parameters({}), 2 * numbers);
}

TEST(WeightCasts, ACopyIsMadeAgainWhereTheLeafChanged) {
  Param param{.name = "w"};
  param.leaf = at::ones({2, 2}).requires_grad_();
  param.operand_type = at::kBFloat16;
  Tensor first;
  {
    const at::NoGradGuard no_grad;
    first = param.operand();
    EXPECT_TRUE(param.operand().is_same(first));
  }
  EXPECT_TRUE(first.requires_grad()) << "made without gradients, used with them";
  param.operand().sum().backward();
  param.operand().sum().backward();
  EXPECT_EQ(param.leaf.grad().scalar_type(), at::kFloat);
  EXPECT_TRUE(at::equal(param.leaf.grad(), at::full({2, 2}, 2)));
  param.leaf.detach().mul_(3);  // as an optimizer does
  EXPECT_EQ(param.operand()[0][0].item<double>(), 3);
  param.leaf = at::zeros({2, 2});
  EXPECT_EQ(param.operand()[0][0].item<double>(), 0);
}

// bf16 weights

const PluginUse kBf16Weights = {"bf16_weights", Json::object()};

Shard shard_of(Param& param, const Tensor& value) {
  param.shape = value.sizes().vec();
  param.layout = Layout(param.shape);
  param.leaf = value;
  return {.data = value, .grad = {}, .decay = param.decay, .segments = {{&param, param.layout, 0}}};
}

/// AdamW in double, written out.
struct Reference {
  Tensor value, first, second;
  explicit Reference(const Tensor& start)
      : value(start.to(at::kDouble)), first(at::zeros_like(value)), second(at::zeros_like(value)) {}
  void step(const Tensor& gradient, const TrainSpec& spec, bool decay, int64_t number) {
    const Tensor g = gradient.to(at::kDouble);
    const auto t = static_cast<double>(number);
    if (decay) value = value * (1 - spec.lr * spec.weight_decay);
    first = first * spec.beta1 + g * (1 - spec.beta1);
    second = second * spec.beta2 + g * g * (1 - spec.beta2);
    value = value - spec.lr * (first / (1 - std::pow(spec.beta1, t))) /
                        ((second / (1 - std::pow(spec.beta2, t))).sqrt() + spec.eps);
  }
};

double distance(const Tensor& a, const Tensor& b) {
  return ((a.to(at::kDouble) - b.to(at::kDouble)).norm() / b.to(at::kDouble).norm()).item<double>();
}

TEST(MasterAdamW, IsTheFormulaInDoubleAndWeightsAreRoundedMasters) {
  at::manual_seed(1);
  TrainSpec spec;
  spec.lr = 1e-2;
  spec.weight_decay = 0.1;
  Param matrix{.name = "matrix"}, vector{.name = "vector", .decay = false};
  const Tensor start = at::randn({37, 53});
  std::vector<Shard> shards = {shard_of(matrix, start.to(at::kBFloat16)), shard_of(vector, at::randn({19}))};
  Reference of_matrix(start), of_vector(shards[1].data);
  const auto optimizer = master_adamw::make_optimizer(spec, shards, {{&matrix, start.clone()}});
  const auto states = optimizer->state(shards[0]);
  ASSERT_EQ(states.back().name, "master");
  Update update{.lr = spec.lr};
  for (int64_t step = 1; step <= 10; ++step) {
    // In both of the types that gradients of a matrix may have.
    shards[0].grad = at::randn({37, 53}).to(step % 2 == 0 ? at::kFloat : at::kBFloat16);
    shards[1].grad = at::randn({19});
    of_matrix.step(shards[0].grad, spec, true, step);
    of_vector.step(shards[1].grad, spec, false, step);
    // A part of the shards at a time: each counts its own steps.
    optimizer->step(std::span(shards).first(1), update);
    optimizer->step(std::span(shards).last(1), update);
  }
  EXPECT_LT(distance(states.back().value, of_matrix.value), 1e-6);
  EXPECT_LT(distance(states[0].value, of_matrix.first), 1e-6);
  EXPECT_LT(distance(states[1].value, of_matrix.second), 1e-6);
  EXPECT_LT(distance(shards[1].data, of_vector.value), 1e-6);
  EXPECT_EQ(optimizer->state(shards[1]).size(), 3U)
      << "moments and steps: a vector in fp32 is its own master";
  EXPECT_TRUE(at::equal(shards[0].data, states.back().value.to(at::kBFloat16)));

  const Tensor before = shards[0].data.clone();
  update.skip = at::ones({});
  optimizer->step(shards, update);
  EXPECT_TRUE(at::equal(shards[0].data, before));
}

TEST(MasterAdamW, SmallUpdatesAreNotLost) {
  TrainSpec spec;
  spec.lr = 1e-4;  // a 256th of what bf16 can tell from 1
  spec.weight_decay = 0;
  Param param{.name = "w"};
  std::vector<Shard> shards = {shard_of(param, at::ones({8, 8}, at::kBFloat16))};
  const auto optimizer = master_adamw::make_optimizer(spec, shards, {});
  shards[0].grad = at::ones({8, 8}, at::kBFloat16);
  for (int step = 0; step < 100; ++step) optimizer->step(shards, Update{.lr = spec.lr});
  EXPECT_NEAR(shards[0].data[0][0].item<double>(), 0.99, 4e-3);
}

TEST(MasterAdamW, GpuKernelsCompile) {
  setenv("OPTRUSH_CACHE", OPTRUSH_BUILD_DIR "/tests/cache", 1);
  for (const char* architecture : {"sm_80", "sm_90", "sm_100"}) {
    std::vector<std::string> kernels = {"prepare"};
    for (const auto type : {master_adamw::GradientType::bf16, master_adamw::GradientType::fp32})
      for (const bool writes : {true, false})
        for (const bool packed : {true, false})
          kernels.push_back(master_adamw::gpu::update_name(type, writes, packed));
    for (const auto& kernel : kernels) try {
        const auto& source = master_adamw::gpu::program().source();
        EXPECT_FALSE(compile_gpu_kernel(source, kernel, architecture).image.empty()) << kernel;
      } catch (const Error& error) {
        if (std::string(error.what()).find("was not found") != std::string::npos)
          GTEST_SKIP() << error.what();
        ADD_FAILURE() << error.what();
      }
  }
  unsetenv("OPTRUSH_CACHE");
}

/// Largest relative difference of the losses of two runs.
double apart(const Json& a, const Json& b) {
  const auto x = losses(a), y = losses(b);
  EXPECT_EQ(x.size(), y.size());
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i) worst = std::max(worst, std::abs(x[i] - y[i]) / std::abs(y[i]));
  return worst;
}
const double kTolerance = tolerance_of(Effect::precision, Arithmetic::reduced);

RunSpec ten_steps(Stack stack) {
  RunSpec spec = nano_spec(std::move(stack));
  spec.train.warmup = 0;
  spec.train.steps = 10;
  return spec;
}

TEST(Bf16Weights, FollowsFp32AndAutocast) {
  const Json fp32 = Trained(ten_steps({})).train(),
             autocast = Trained(ten_steps({{"mixed_precision", Json::object()}})).train(),
             weights = Trained(ten_steps({kBf16Weights})).train();
  EXPECT_LT(apart(weights, fp32), kTolerance);
  EXPECT_LT(apart(weights, autocast), kTolerance);
  EXPECT_NE(losses(weights), losses(autocast));
}

TEST(Bf16Weights, EveryKindOfModelTakesActivationsInBf16) {
  const auto in_both = [](RunSpec spec) {
    spec.plugins.clear();
    const Json fp32 = Trained(spec).train();
    spec.plugins = {kBf16Weights};
    Trained trained(spec, [](Recipe& recipe) {
      recipe.unit.wrap(Phase::measure, [](UnitFunction inner, const Unit& unit) -> UnitFunction {
        if (unit.role != "block") return inner;
        return [inner](const Tensor& x, const Batch& batch) {
          EXPECT_EQ(x.scalar_type(), at::kBFloat16);
          const Tensor out = inner(x, batch);
          EXPECT_EQ(out.scalar_type(), at::kBFloat16);
          return out;
        };
      });
    });
    EXPECT_LT(apart(trained.train(), fp32), kTolerance);
  };
  in_both(nano_spec());
  RunSpec stack = nano_spec();
  stack.model_kind = "swiglu_stack";
  stack.model = validate_model("swiglu_stack", {{"dim", 32}, {"ffn_dim", 48}, {"n_layers", 3}}, "test");
  in_both(stack);
  for (const char* op : {"norm", "linear", "add_norm", "swiglu", "position", "attention"}) {
    SCOPED_TRACE(op);
    RunSpec alone = nano_spec();
    alone.model_kind = "operator";
    alone.model = validate_model("operator", {{"op", op}, {"dim", 32}, {"n_heads", 4}}, "test");
    in_both(alone);
  }
}

TEST(Bf16Weights, BytesOfEachPart) {
  Trained trained(nano_spec({kBf16Weights}));
  int64_t matrices = 0, vectors = 0;
  for (const Param* param : trained.session().params().all()) {
    (param->shape.size() > 1 ? matrices : vectors) += param->numel();
    EXPECT_EQ(param->leaf.scalar_type(), param->shape.size() > 1 ? at::kBFloat16 : at::kFloat) << param->name;
  }
  const Json memory = trained.train()["memory"]["predicted"];
  EXPECT_EQ(memory["parameters"], 2 * matrices + 4 * vectors);
  EXPECT_EQ(memory["gradients"], 2 * matrices + 4 * vectors);
  EXPECT_EQ(memory["optimizer_state"], (4 + 8) * matrices + 8 * vectors);
  RunSpec accumulating = nano_spec({kBf16Weights, {"gradient_accumulation", {{"steps", 2}}}});
  EXPECT_EQ(Trained(accumulating).train()["memory"]["predicted"]["gradients"], 4 * (matrices + vectors));
}

TEST(Bf16Weights, MastersStartUnrounded) {
  Trained plain(nano_spec()), trained(nano_spec({kBf16Weights}));
  for (const Shard& shard : trained.session().data_parallel().shards()) {
    const auto state = trained.session().optimizer().state(shard);
    const std::string& name = shard.segments.front().param->name;
    const Tensor& full = plain.session().params().at(name).leaf;
    if (shard.data.dim() > 1) {
      EXPECT_TRUE(at::equal(state.back().value, full)) << name;
    }
    EXPECT_TRUE(at::equal(shard.data, full.to(shard.data.scalar_type()))) << name;
  }
}

TEST(Bf16Weights, MicroBatchesAddUpInFp32AndNormsAreTakenInFp32) {
  for (const int64_t steps : {1, 2}) {
    RunSpec spec = nano_spec({kBf16Weights});
    spec.train.accumulation = steps;
    spec.train.warmup = 0;
    spec.train.steps = 1;
    double norm = 0;
    Trained trained(spec, [&](Recipe& recipe) {
      recipe.gradients.wrap(Phase::gradients, [&](auto inner, const Site&) -> decltype(inner) {
        return [&, inner](Gradients& gradients, Update& update) {
          for (const Shard& shard : gradients.shards()) {
            if (shard.data.dim() > 1) {
              EXPECT_EQ(shard.grad.scalar_type(), steps > 1 ? at::kFloat : at::kBFloat16);
            }
            norm += shard.grad.to(at::kDouble).square().sum().item<double>();
          }
          inner(gradients, update);
        };
      });
    });
    const Json result = trained.train();
    EXPECT_NEAR(result["steps"][0]["grad_norm"].get<double>(), std::sqrt(norm), 1e-5 * std::sqrt(norm));
  }
}

TEST(Bf16Weights, RecomputationKeepsTheBitsAndAdaptersHaveMasters) {
  const auto with = [](Stack beside) {
    beside.push_back(kBf16Weights);
    return losses(Trained(nano_spec(beside)).train());
  };
  EXPECT_EQ(with({checkpointing(Json::object())}), with({}));
  EXPECT_EQ(with({checkpointing({{"policy", "selective"}})}), with({}));
  Trained lora(nano_spec({kBf16Weights, {"lora", {{"rank", 4}}}}));
  for (const Shard& shard : lora.session().data_parallel().shards())
    EXPECT_EQ(lora.session().optimizer().state(shard).back().name, "master");
  EXPECT_LT(apart(lora.train(), Trained(nano_spec({{"lora", {{"rank", 4}}}})).train()), kTolerance);
}

TEST(Bf16Weights, SaysWhatItCannotBeStackedWith) {
  const auto message = [](Stack stack, const std::string& dtype = "fp32") {
    RunSpec spec = nano_spec(std::move(stack));
    spec.train.dtype = dtype;
    return error_of([&] { Trained trained(spec); });
  };
  EXPECT_NE(message({kBf16Weights, {"mixed_precision", Json::object()}}).find("can't be stacked together"),
            std::string::npos);
  EXPECT_NE(message({kBf16Weights, {"fused_adamw", Json::object()}}).find("fused_adamw"), std::string::npos);
  EXPECT_NE(message({kBf16Weights}, "fp64").find("fp64"), std::string::npos);
}

// fp8 linears

using float8::Scaling;

Tensor meant(const float8::Scaled& matrix) {
  return matrix.values.to(at::kDouble) * matrix.scale.to(at::kDouble);
}

TEST(Float8, AScaleFillsTheRangeAndRoundsOnce) {
  at::manual_seed(2);
  const Tensor x = at::randn({32, 48}) * at::logspace(-4, 4, 32).unsqueeze(1);
  for (const auto type : {at::kFloat8_e4m3fn, at::kFloat8_e5m2})
    for (const auto scaling : {Scaling::tensorwise, Scaling::rowwise}) {
      const auto quantized = float8::quantize(x.to(at::kBFloat16), type, scaling);
      const Tensor largest = quantized.values.to(at::kFloat).abs().amax(1);
      const double limit = type == at::kFloat8_e5m2 ? 57344 : 448;
      EXPECT_LE(largest.max().item<double>(), limit);
      if (scaling == Scaling::tensorwise) {
        EXPECT_EQ(largest.max().item<double>(), limit);
        continue;
      }
      EXPECT_GE(largest.min().item<double>(), limit / 2);
      EXPECT_TRUE(at::equal(quantized.scale.log2(), quantized.scale.log2().round()));
      // Half a unit of the last place of 3 or 2 bits.
      EXPECT_LT(distance(meant(quantized), x), type == at::kFloat8_e5m2 ? 0.13 : 0.065);
      EXPECT_TRUE(at::equal(meant(float8::quantize_transposed(x, quantized, scaling)),
                            meant(float8::quantize(x.t(), type, scaling))));
    }
  const auto zero = float8::quantize(at::zeros({16, 16}), at::kFloat8_e4m3fn, Scaling::tensorwise);
  EXPECT_EQ(meant(zero).abs().max().item<double>(), 0);
}

/// The pair's output and gradients against fp64 products of the numbers that it rounds to.
TEST(Float8, EveryProductIsThatOfTheRoundedNumbers) {
  at::manual_seed(3);
  for (const auto scaling : {Scaling::tensorwise, Scaling::rowwise}) {
    const auto type = scaling == Scaling::rowwise ? at::kFloat8_e4m3fn : at::kFloat8_e5m2;
    float8::StepWeight step_weight;
    const auto pair = float8::make_linear_pair(scaling, type, /*weight_trained=*/true, step_weight);
    const Tensor x = at::randn({2, 16, 48}).to(at::kBFloat16).requires_grad_();
    const Tensor w = at::randn({64, 48}).requires_grad_();
    const Tensor out = call(pair, {x, w}).front();
    const Tensor g = at::randn({2, 16, 64}).to(at::kBFloat16);
    out.backward(g);

    const auto rounded = [&](const Tensor& matrix, at::ScalarType to = at::kFloat8_e4m3fn) {
      return meant(float8::quantize(matrix, to, scaling));
    };
    const Tensor rows = x.detach().view({32, 48}), d_out = g.view({32, 64}), plain = w.detach();
    constexpr double kBf16 = 4e-3;
    EXPECT_LT(distance(out.view({32, 64}), rounded(rows).mm(rounded(plain).t())), kBf16);
    EXPECT_LT(distance(x.grad().view({32, 48}), rounded(d_out, type).mm(rounded(plain.t()).t())), kBf16);
    EXPECT_LT(distance(w.grad(), rounded(d_out.t(), type).mm(rounded(rows.t()).t())), kBf16);
    // And near the product of the numbers themselves: 3 bits of fraction in one factor, 3 or 2 in the other.
    EXPECT_LT(distance(out.view({32, 64}), rows.to(at::kDouble).mm(plain.to(at::kDouble).t())), 0.05);
    EXPECT_LT(distance(w.grad(), d_out.to(at::kDouble).t().mm(rows.to(at::kDouble))), 0.08);
    EXPECT_EQ(w.grad().scalar_type(), at::kFloat);
    EXPECT_EQ(out.scalar_type(), at::kBFloat16);
  }
}

TEST(Float8, AnOutlierCostsItsOwnRow) {
  at::manual_seed(4);
  Tensor x = at::randn({32, 64});
  x[0][0] = 1e6;
  const auto error = [&](Scaling scaling) {
    return distance(meant(float8::quantize(x, at::kFloat8_e4m3fn, scaling)).slice(0, 1), x.slice(0, 1));
  };
  EXPECT_LT(error(Scaling::rowwise), 0.05);
  EXPECT_GT(error(Scaling::tensorwise), 0.5);
}

TEST(Float8, TrainingFollowsFp32WhateverIsBelow) {
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

/// So few steps of so small a model say little by their losses. Gradient norms, which `optrush check`
/// compares as well, tell a scale that is lost on the way from rounding.
TEST(Float8, ALostScaleShowsInTheGradientNorm) {
  const auto norm = [](const Stack& stack, double factor = 1) {
    const auto scaled = [factor](Ops::Linear::Fn inner, const Site& site) -> Ops::Linear::Fn {
      if (site.layer < 0) return inner;
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

TEST(Float8, WeightsAreQuantizedOnceAStepAndFlopsCount) {
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

TEST(Float8, FrozenMatricesKeepNothingOfTheirInput) {
  const Stack lora = {{"lora", {{"rank", 4}}}, {"mixed_precision", Json::object()}};
  Stack both = lora;
  both.push_back({"float8", Json::object()});
  const Json plain = Trained(nano_spec(lora)).train(), got = Trained(nano_spec(both)).train();
  EXPECT_LT(apart(got, plain), kTolerance);
  EXPECT_EQ(got["flops_per_token"]["hfu"], plain["flops_per_token"]["hfu"]);
}

TEST(Float8, SaysWhatItLeavesAloneAndWhatItNeeds) {
  RunSpec spec = nano_spec({{"float8", Json::object()}});
  spec.model["ffn_dim"] = 40;
  Trained odd(spec);
  ASSERT_EQ(odd.session().notes().size(), 1U);
  EXPECT_NE(odd.session().notes()[0].find("6 linears stay"), std::string::npos) << odd.session().notes()[0];
  spec = nano_spec({{"float8", Json::object()}});
  spec.train.seq_len = 15;
  spec.train.micro_batch = 1;
  EXPECT_NE(error_of([&] { Trained trained(spec); }).find("multiple of 16"), std::string::npos);
  spec.train.dtype = "fp64";
  EXPECT_NE(error_of([&] { Trained trained(spec); }).find("fp64"), std::string::npos);
}
}  // namespace
}  // namespace optrush::testing
