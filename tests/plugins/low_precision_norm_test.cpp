// Norms in low precision: types, values against the formula in double, and training.
#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "measure/memory.h"
#include "precision.h"

namespace optrush::testing {
namespace {
const PluginUse kNorm{"low_precision_norm", Json::object()};
const PluginUse kAutocast{"mixed_precision", Json::object()};
const char* const kKinds[] = {"rmsnorm", "layernorm", "layernorm_without_parameters"};

/// The formula in double, with the module's weight and bias.
Tensor formula(const Tensor& x, const Module& module, const NormArgs& args) {
  Tensor wide = x.to(at::kDouble);
  if (args.kind != NormKind::rmsnorm) wide = wide - wide.mean(-1, true);
  Tensor normed = wide * (wide.square().mean(-1, true) + args.eps).rsqrt();
  if (!module.params.empty()) normed = normed * module.params[0]->value().to(at::kDouble);
  if (module.params.size() > 1) normed = normed + module.params[1]->value().to(at::kDouble);
  return normed;
}

/// Trains and records the input and the result of every norm. `apart` is the largest distance from the
/// formula.
struct Seen {
  std::set<at::ScalarType> streams, results;
  double apart = 0;
  int64_t calls = 0;
  Json result;
};
Seen seen_in(const RunSpec& spec) {
  Seen seen;
  const auto see = [&](const Tensor& x, const Tensor& out, const Module& module, const NormArgs& args) {
    seen.streams.insert(x.scalar_type());
    seen.results.insert(out.scalar_type());
    const at::NoGradGuard no_grad;
    seen.apart = std::max(seen.apart, distance(out, formula(x, module, args)));
    ++seen.calls;
  };
  Trained trained(spec, [&](Recipe& recipe) {
    recipe.ops.norm.wrap(Phase::measure, [&](Ops::Norm::Fn inner, const Module& module) -> Ops::Norm::Fn {
      return [&see, inner, &module](const Tensor& x, const NormArgs& args) {
        Tensor out = inner(x, args);
        see(x, out, module, args);
        return out;
      };
    });
    recipe.ops.add_norm.wrap(
        Phase::measure, [&](Ops::AddNorm::Fn inner, const Module& module) -> Ops::AddNorm::Fn {
          return [&see, inner, &module](const Tensor& x, const Tensor& delta, const NormArgs& args) {
            auto out = inner(x, delta, args);
            if (delta.defined()) {
              EXPECT_TRUE(at::equal(out[0], x + delta));
            }
            see(out[0], out[1], module, args);
            return out;
          };
        });
  });
  // Weights and biases that reveal a mistake.
  for (Param* param : trained.session().params().all())
    if (param->shape.size() == 1) {
      const at::NoGradGuard no_grad;
      param->leaf.add_(at::randn_like(param->leaf), 0.3);
    }
  seen.result = trained.train();
  return seen;
}

RunSpec spec_with_norm(const char* kind, Stack stack) {
  at::set_num_threads(1);  // the runs are tiny, and the machine may be busy
  RunSpec spec = nano_spec(std::move(stack));
  spec.model["norm"] = kind;
  return spec;
}

TEST(LowPrecisionNorm, ReadsFp32AndWritesTheLowTypeUnderAutocast) {
  for (const char* kind : kKinds)
    for (const auto& [dtype, type] : {std::pair("bf16", at::kBFloat16), {"fp16", at::kHalf}}) {
      SCOPED_TRACE(std::string(kind) + " " + dtype);
      const PluginUse autocast{"mixed_precision", {{"dtype", dtype}}};
      const Seen low = seen_in(spec_with_norm(kind, {autocast, kNorm})),
                 plain = seen_in(spec_with_norm(kind, {autocast}));
      EXPECT_EQ(low.calls, 5 * 3);
      EXPECT_EQ(low.streams, std::set<at::ScalarType>{at::kFloat});
      EXPECT_EQ(low.results, std::set<at::ScalarType>{type});
      EXPECT_EQ(plain.results, std::set<at::ScalarType>{at::kFloat});
      EXPECT_LT(low.apart, type == at::kHalf ? 1e-3 : 8e-3);
      EXPECT_GT(low.apart, plain.apart);
    }
}

TEST(LowPrecisionNorm, UsesTheTypeOfTheStreamWithBf16Weights) {
  for (const char* kind : kKinds) {
    const Seen low = seen_in(spec_with_norm(kind, {{"bf16_weights", Json::object()}, kNorm}));
    EXPECT_EQ(low.streams, std::set<at::ScalarType>{at::kBFloat16});
    EXPECT_EQ(low.results, std::set<at::ScalarType>{at::kBFloat16});
    EXPECT_LT(low.apart, 8e-3);
  }
}

TEST(LowPrecisionNorm, TrainingInFp64IsUnchanged) {
  for (const char* kind : kKinds) {
    SCOPED_TRACE(kind);
    const auto curve = [&](Stack stack, const char* dtype) {
      RunSpec spec = spec_with_norm(kind, std::move(stack));
      spec.train.dtype = dtype;
      return losses(Trained(spec).train());
    };
    const auto exact = curve({}, "fp64"), fused = curve({kNorm}, "fp64");
    for (size_t i = 0; i < exact.size(); ++i) EXPECT_NEAR(fused[i], exact[i], 1e-12 * exact[i]);
  }
}

TEST(LowPrecisionNorm, TrainsLikeAutocastAndBf16Weights) {
  for (const char* kind : kKinds)
    for (const PluginUse& low : {kAutocast, PluginUse{"bf16_weights", Json::object()}}) {
      SCOPED_TRACE(kind + low.name);
      const auto ten = [&](Stack stack) {
        RunSpec spec = ten_steps(std::move(stack));
        spec.model["norm"] = kind;
        return Trained(spec).train();
      };
      const Json with = ten({low, kNorm}), without = ten({low});
      EXPECT_LT(apart(with, without), kTolerance);
      EXPECT_NE(losses(with), losses(without));
    }
}

TEST(LowPrecisionNorm, KeepsFewerBytesForTheBackward) {
  install_cpu_memory_tracking();
  for (const char* kind : kKinds) {
    const auto activations = [&](Stack stack) {
      return Trained(spec_with_norm(kind, std::move(stack)))
          .train()["memory"]["peak_allocated"]
          .get<int64_t>();
    };
    EXPECT_LT(activations({kAutocast, kNorm}), activations({kAutocast})) << kind;
  }
}
}  // namespace
}  // namespace optrush::testing
