// bf16 weights equal their rounded fp32 masters.
#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <cmath>

#include "bf16_weights/gpu/update.h"
#include "master_adamw.h"
#include "optimizers.h"
#include "precision.h"
#include "spec/spec_json.h"
#include "support/cubin.h"
#include "support/error_of.h"
#include "support/folders.h"

namespace optrush::testing {
namespace {
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

TEST(MasterAdamW, MatchesTheFormulaInDoubleAndWeightsAreRoundedMasters) {
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
    // With both types of a matrix's gradients.
    shards[0].grad = at::randn({37, 53}).to(step % 2 == 0 ? at::kFloat : at::kBFloat16);
    shards[1].grad = at::randn({19});
    of_matrix.step(shards[0].grad, spec, true, step);
    of_vector.step(shards[1].grad, spec, false, step);
    // Steps with a part of the shards, because each shard counts its own steps.
    optimizer->step(std::span(shards).first(1), update);
    optimizer->step(std::span(shards).last(1), update);
  }
  EXPECT_LT(distance(states.back().value, of_matrix.value), 1e-6);
  EXPECT_LT(distance(states[0].value, of_matrix.first), 1e-6);
  EXPECT_LT(distance(states[1].value, of_matrix.second), 1e-6);
  EXPECT_LT(distance(shards[1].data, of_vector.value), 1e-6);
  EXPECT_EQ(optimizer->state(shards[1]).size(), 3U)
      << "moments and steps only, because a vector in fp32 is its own master";
  EXPECT_TRUE(at::equal(shards[0].data, states.back().value.to(at::kBFloat16)));

  const Tensor before = shards[0].data.clone();
  update.skip = at::ones({});
  optimizer->step(shards, update);
  EXPECT_TRUE(at::equal(shards[0].data, before));
}

TEST(MasterAdamW, SmallUpdatesAreNotLost) {
  TrainSpec spec;
  spec.lr = 1e-4;  // 1/256 of the resolution of bf16 at 1
  spec.weight_decay = 0;
  Param param{.name = "w"};
  std::vector<Shard> shards = {shard_of(param, at::ones({8, 8}, at::kBFloat16))};
  const auto optimizer = master_adamw::make_optimizer(spec, shards, {});
  shards[0].grad = at::ones({8, 8}, at::kBFloat16);
  for (int step = 0; step < 100; ++step) optimizer->step(shards, Update{.lr = spec.lr});
  EXPECT_NEAR(shards[0].data[0][0].item<double>(), 0.99, 4e-3);
}

TEST(MasterAdamW, GpuKernelsCompileWithoutSpillingRegisters) {
  setenv("OPTRUSH_CACHE", (build_folder() + "/tests/cache").c_str(), 1);
  for (const char* architecture : {"sm_80", "sm_90", "sm_100"}) {
    std::vector<std::string> kernels = {"prepare"};
    for (const auto type : {fused::Type::bf16, fused::Type::fp32})
      for (const bool writes : {true, false})
        for (const bool packed : {true, false})
          kernels.push_back(master_adamw::gpu::update_name(type, writes, packed));
    for (const auto& kernel : kernels) try {
        const auto compiled = compile_gpu_kernel(master_adamw::gpu::program().source(), kernel, architecture);
        const KernelResources resources = resources_of(compiled.image);
        if (kernel != "prepare") {
          EXPECT_EQ(resources.local_bytes, 0) << kernel << " " << architecture;
        }
      } catch (const Error& error) {
        if (std::string(error.what()).find("was not found") != std::string::npos)
          GTEST_SKIP() << error.what();
        ADD_FAILURE() << error.what();
      }
  }
  unsetenv("OPTRUSH_CACHE");
}

TEST(Bf16Weights, TrainsLikeFp32AndAutocast) {
  const Json fp32 = Trained(ten_steps({})).train(),
             autocast = Trained(ten_steps({{"mixed_precision", Json::object()}})).train(),
             weights = Trained(ten_steps({kBf16Weights})).train();
  EXPECT_LT(apart(weights, fp32), kTolerance);
  EXPECT_LT(apart(weights, autocast), kTolerance);
  EXPECT_NE(losses(weights), losses(autocast));
}

TEST(Bf16Weights, EveryKindOfModelHasBf16Activations) {
  const auto in_both = [](RunSpec spec) {
    spec.plugins.clear();
    const Json fp32 = Trained(spec).train();
    spec.plugins = {kBf16Weights};
    Trained trained(spec, [](Recipe& recipe) {
      recipe.unit.wrap(Phase::measure, [](UnitFunction inner, const Unit& unit) -> UnitFunction {
        if (unit.role != UnitRole::block) return inner;
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
  stack.model_kind = "operator";
  stack.model =
      validate_model("operator", {{"op", "mlp"}, {"dim", 32}, {"ffn_dim", 48}, {"repeat", 3}}, "test");
  in_both(stack);
  for (const char* op : {"norm", "linear", "add_norm", "swiglu", "position", "attention"}) {
    SCOPED_TRACE(op);
    RunSpec alone = nano_spec();
    alone.model_kind = "operator";
    alone.model = validate_model("operator", {{"op", op}, {"dim", 32}, {"n_heads", 4}}, "test");
    in_both(alone);
  }
}

TEST(Bf16Weights, BytesOfEachPartAreAsExpected) {
  Trained trained(nano_spec({kBf16Weights}));
  int64_t matrices = 0, vectors = 0;
  for (const Param* param : trained.session().params().all()) {
    (param->shape.size() > 1 ? matrices : vectors) += param->numel();
    EXPECT_EQ(param->leaf.scalar_type(), param->shape.size() > 1 ? at::kBFloat16 : at::kFloat) << param->name;
  }
  const Json memory = trained.train()["memory"]["parts"];
  EXPECT_EQ(memory["parameters"], 2 * matrices + 4 * vectors);
  EXPECT_EQ(memory["gradients"], 2 * matrices + 4 * vectors);
  EXPECT_EQ(memory["optimizer_state"], (4 + 8) * matrices + 8 * vectors);
  RunSpec accumulating = nano_spec({kBf16Weights, {"gradient_accumulation", {{"steps", 2}}}});
  EXPECT_EQ(Trained(accumulating).train()["memory"]["parts"]["gradients"], 4 * (matrices + vectors));
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

TEST(Bf16Weights, AccumulationAndNormsAreInFp32) {
  for (const int64_t steps : {1, 2}) {
    RunSpec spec = nano_spec({kBf16Weights});
    spec.train.accumulation = steps;
    spec.train.warmup = 0;
    spec.train.steps = 1;
    double norm = 0;
    Trained trained(spec, [&](Recipe& recipe) {
      recipe.gradients.wrap(Phase::gradients, [&](auto inner) {
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

TEST(Bf16Weights, RecomputationIsBitEqualAndAdaptersHaveMasters) {
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

TEST(Bf16Weights, IncompatiblePluginsAreNamed) {
  const auto message = [](Stack stack, const std::string& dtype = "fp32") {
    RunSpec spec = nano_spec(std::move(stack));
    spec.train.dtype = dtype;
    return error_of([&] { Trained trained(spec); });
  };
  EXPECT_NE(message({kBf16Weights, {"mixed_precision", Json::object()}}).find("' conflict"),
            std::string::npos);
  EXPECT_NE(message({kBf16Weights, {"fused_adamw", Json::object()}}).find("fused_adamw"), std::string::npos);
  EXPECT_NE(message({kBf16Weights}, "fp64").find("fp64"), std::string::npos);
}
}  // namespace
}  // namespace optrush::testing
