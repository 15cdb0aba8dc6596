// A NaN or an infinity in the inputs of a fused kernel stays visible. A maximum that drops a NaN would make a
// diverged run look healthy.
#include <ATen/Functions.h>
#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <cmath>
#include <functional>
#include <limits>

#include "adamw_8bit/optimizer.h"
#include "bf16_weights/master_adamw.h"
#include "flash_attention/cpu/attention.h"
#include "fused_cases.h"
#include "loss_function.h"
#include "nf4/codec.h"
#include "optimizers.h"
#include "support/instruction_set.h"

namespace optrush::testing {
namespace {
constexpr float kNan = std::numeric_limits<float>::quiet_NaN(),
                kInfinity = std::numeric_limits<float>::infinity();

/// NaNs with and without further bits, of both signs, as different instructions make them.
Tensors nans() {
  Tensors all;
  for (const uint32_t bits : {0x7FC00000U, 0x7FC00001U, 0x7F800001U, 0xFFC00000U, 0xFFFFFFFFU})
    all.push_back(at::scalar_tensor(static_cast<int32_t>(bits), at::kInt).view(at::kFloat));
  return all;
}

/// Calls `check` with each instruction set of this machine.
void with_each_instruction_set(const std::function<void()>& check) {
  for (int64_t rest = hwy::SupportedTargets(); rest != 0; rest &= rest - 1) {
    const InstructionSet chosen(rest & -rest);
    SCOPED_TRACE(hwy::TargetName(rest & -rest));
    check();
  }
}

/// The kernel's result is finite only where the plain form is. `nan`: it is also NaN wherever the plain form
/// is.
void expect_visible(const Tensor& is, const Tensor& plain, bool nan, const std::string& what) {
  const Tensor expected = plain.to(at::kDouble), got = is.to(at::kDouble);
  const Tensor lost = nan ? expected.isnan().logical_and(got.isnan().logical_not())
                          : expected.isfinite().logical_not().logical_and(got.isfinite());
  EXPECT_FALSE(lost.any().item<bool>()) << what << ": " << lost.sum().item<int64_t>() << " of "
                                        << expected.isfinite().logical_not().sum().item<int64_t>();
}

/// Each input in turn gets the value, in the first vector of a row and in its rest.
void for_each_place(const Tensors& in, size_t derived, const std::function<void(const Tensors&)>& visit) {
  for (size_t i = 0; i < derived; ++i)
    for (const int64_t place : {int64_t{1}, in[i].size(-1) - 1}) {
      Tensors given;
      for (const Tensor& each : in) given.push_back(each.clone());
      given[i].view({-1, in[i].size(-1)}).select(0, 0).select(0, place).fill_(kNan);
      visit(given);
    }
}

Tensors with(const Tensors& given, const Tensor& value) {
  Tensors made;
  for (const Tensor& each : given)
    made.push_back(each.is_floating_point() ? at::where(each.isnan(), value.to(each.scalar_type()), each)
                                            : each);
  return made;
}

TEST(NotFinite, NormsRotationsAndGatedUnits) {
  with_each_instruction_set([] {
    for (const Case& c : cases())
      for (const auto type : {at::kFloat, at::kBFloat16}) {
        Tensors in;
        for (const Tensor& each : inputs(c, type, 67)) in.push_back(each.contiguous());
        for_each_place(in, c.derived, [&](const Tensors& given) {
          Tensors values = nans();
          values.push_back(at::scalar_tensor(kInfinity));
          values.push_back(at::scalar_tensor(-kInfinity));
          for (const Tensor& value : values) {
            const bool nan = std::isnan(value.item<float>());
            const Tensors put = with(given, value);
            const Outcome fused = outcome([&](const Tensors& x) { return call(c.pair, x); }, put, c.derived);
            const Outcome expected = outcome(c.plain, put, c.derived);
            for (size_t i = 0; i < expected.outputs.size(); ++i)
              expect_visible(fused.outputs[i], expected.outputs[i], nan, c.name + " output");
            // Where a clamp ends, the slope of an infinite gate is finite in the kernel.
            for (size_t i = 0; i < c.derived && nan; ++i)
              expect_visible(fused.gradients[i], expected.gradients[i], nan, c.name + " gradient");
          }
        });
      }
  });
}

TEST(NotFinite, CausalAttention) {
  if (!flash::cpu::supports(at::kFloat)) GTEST_SKIP() << "this processor has no AVX-512";
  const Differentiable own = flash::cpu::attention({.scale = 0.3});
  at::manual_seed(1);
  const Tensors in = {at::randn({1, 2, 70, 16}), at::randn({1, 2, 70, 16}), at::randn({1, 2, 70, 16})};
  const auto plain = [](const Tensors& x) -> Tensors {
    return {plain::attention(x[0], x[1], x[2], {.scale = 0.3}).out};
  };
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    if (!flash::cpu::supports(type)) continue;
    Tensors typed;
    for (const Tensor& each : in) typed.push_back(each.to(type));
    for_each_place(typed, 3, [&](const Tensors& given) {
      for (const float value : {kNan, kInfinity, -kInfinity}) {
        const Tensors put = with(given, at::scalar_tensor(value));
        const Outcome is = outcome([&](const Tensors& x) { return Tensors{call(own, x)[0]}; }, put, 3);
        const Outcome expected = outcome(plain, put, 3);
        expect_visible(is.outputs[0], expected.outputs[0], false, "output");
        // The plain form also computes the products of keys that a query does not see.
        for (size_t i = 0; i < 3; ++i) {
          const bool lost = is.gradients[i].isfinite().all().item<bool>();
          EXPECT_FALSE(lost && !expected.gradients[i].isfinite().all().item<bool>())
              << value << ", gradient " << i;
        }
      }
    });
  }
}

TEST(NotFinite, Loss) {
  const Tensor labels = at::tensor({3, 66, -100, 5}, at::kLong).view({1, 4});
  with_each_instruction_set([&] {
    for (const auto type : {at::kFloat, at::kBFloat16, at::kDouble})
      for (const double cap : {0.0, 3.0})
        for (const float value : {kNan, kInfinity, -kInfinity}) {
          at::manual_seed(2);
          const Tensor weight = at::randn({67, 8}, at::kDouble).to(type);
          const Tensor x = at::randn({1, 4, 8}, at::kDouble).to(type);
          x[0][1][7].fill_(value);
          const auto outcome_of = [&](const std::function<Tensor(const Tensor&, const Tensor&)>& loss_of) {
            const Tensor of_x = x.clone().requires_grad_(), of_weight = weight.clone().requires_grad_();
            const Tensor loss = loss_of(of_x, of_weight);
            loss.backward();
            return Tensors{loss.detach(), of_x.grad(), of_weight.grad()};
          };
          const Differentiable op = make_loss_function({.chunk = 2, .soft_cap = cap});
          const Tensors is = outcome_of([&](const Tensor& a, const Tensor& matrix) {
            return call(op, {a, labels, matrix}).at(0);
          });
          const Tensors expected = outcome_of([&](const Tensor& a, const Tensor& matrix) {
            return plain::cross_entropy_sum(plain::soft_capped(at::linear(a, matrix), cap), labels);
          });
          for (size_t i = 0; i < 3; ++i) expect_visible(is[i], expected[i], false, c10::toString(type));
        }
  });
}

/// After an update with a gradient that is not finite, the moments and the parameter show it, also in later
/// steps.
void expect_visible_updates(
    const std::function<std::unique_ptr<Optimizer>(const TrainSpec&, std::span<Shard>)>& make) {
  for (const float value : {kNan, kInfinity, -kInfinity})
    for (const int64_t place : {int64_t{3}, int64_t{255}, int64_t{300}}) {
      TrainSpec spec;
      Param matrix{.name = "matrix"};
      std::vector<Shard> shards = {shard_of(matrix, at::randn({19, 16}).to(at::kBFloat16).to(at::kFloat))};
      const auto optimizer = make(spec, shards);
      shards[0].grad = at::randn({19, 16});
      shards[0].grad.view(-1)[place].fill_(value);
      const Update update{.lr = 1e-2, .lr_tensor = at::full({}, 1e-2)};
      for (int64_t step = 0; step < 3; ++step) {
        optimizer->step(shards, update);
        EXPECT_FALSE(shards[0].data.view(-1)[place].isfinite().item<bool>()) << value << " at " << place;
        for (const OptimizerState& state : optimizer->state(shards[0]))
          if (state.name.starts_with("exp_avg") && state.value.is_floating_point()) {
            EXPECT_FALSE(state.value.isfinite().all().item<bool>()) << state.name << ", " << value;
          }
        shards[0].grad = at::randn({19, 16});
      }
    }
}

TEST(NotFinite, Optimizers) {
  with_each_instruction_set([] {
    expect_visible_updates(adamw_8bit::make_optimizer);
    expect_visible_updates([](const TrainSpec& spec, std::span<Shard> shards) {
      return master_adamw::make_optimizer(spec, shards, {});
    });
  });
}

TEST(NotFinite, FourBits) {
  for (const bool twice : {false, true})
    for (const float value : {kNan, kInfinity, -kInfinity}) {
      const nf4::Nf4Codec codec(twice);
      const Tensor matrix = at::randn({40, 64});
      matrix[20][7].fill_(value);
      const Tensor decoded = codec.decode(codec.encode(matrix), {40, 64});
      EXPECT_FALSE(decoded[20][7].isfinite().item<bool>()) << value << twice;
    }
}
}  // namespace
}  // namespace optrush::testing
