#include "slot_edits.h"

#include <ATen/Functions.h>

#include <array>
#include <functional>
#include <memory>
#include <utility>

#include "model/delta_rule.h"
#include "model/operators.h"
#include "optrush/optimizer.h"
#include "optrush/param.h"
#include "optrush/shard.h"

namespace optrush::testing {
namespace {
constexpr double kFactor = 1.25;
const Traits kAten = {.trace = Trace::aten, .capturable = true, .predictable = true};

Tensor larger(const Tensor& x) { return x * kFactor; }
template <size_t N>
std::array<Tensor, N> larger(std::array<Tensor, N> all) {
  all.back() = larger(all.back());
  return all;
}
Routed larger(Routed routed) {
  routed.weights = larger(routed.weights);
  return routed;
}
AttentionOut larger(AttentionOut result) {
  result.out = larger(result.out);
  return result;
}
AttentionForwardBackward larger(AttentionForwardBackward halves) {
  return {[forward = std::move(halves.forward)](const Tensor& q, const Tensor& k, const Tensor& v,
                                                const AttentionArgs& args) {
            return larger(forward(q, k, v, args));
          },
          std::move(halves.backward)};
}

Phase phase_of(const std::string& kind) {
  return kind == "inside" ? Phase::base : kind == "beside" ? Phase::context : Phase::measure;
}

/// Wraps the slot, or replaces its base by the function that `plain` makes for a module.
template <class R, class... A, class Plain>
bool edit(Slot<R(A...)>& slot, const std::string& kind, const Plain& plain) {
  using Fn = std::function<R(A...)>;
  const auto around = [](Fn inner) -> Fn {
    return
        [inner = std::move(inner)](A... arguments) { return larger(inner(std::forward<A>(arguments)...)); };
  };
  if (kind == "base")
    slot.replace_each([around, plain](const Module& module) { return around(plain(module)); },
                      {.trace = Trace::aten,
                       .capturable = true,
                       .offers = {feature::fp64, feature::adapters, feature::lse, feature::window}});
  else
    slot.wrap(
        phase_of(kind), [around](Fn inner) { return around(std::move(inner)); }, kAten);
  return true;
}

/// The same for a slot whose plain function does not depend on the module.
template <class R, class... A>
bool edit_by(Slot<R(A...)>& slot, const std::string& kind, std::function<R(A...)> plain) {
  return edit(slot, kind, [plain = std::move(plain)](const Module&) { return plain; });
}

template <class Signature>
bool edit_wraps_only(Slot<Signature>& slot, const std::string& kind) {
  if (kind == "base") return false;
  return edit_by(slot, kind, std::function<Signature>());
}

bool edit_operator(Ops& ops, const std::string& slot, const std::string& kind) {
  if (slot == "embedding")
    return edit(ops.embedding, kind, [](const Module& module) -> Ops::Embedding::Fn {
      return [weight = module.params.at(0)](const Tensor& tokens) {
        return at::embedding(weight->value(), tokens);
      };
    });
  if (slot == "router" || slot == "linear") {
    const auto product = [](const Module& module) -> std::function<Tensor(const Tensor&)> {
      return
          [weight = module.params.at(0)](const Tensor& x) { return at::linear(x, weight->compute_value()); };
    };
    return slot == "router" ? edit(ops.router, kind, product) : edit(ops.linear, kind, product);
  }
  if (slot == "routing") return edit_by(ops.routing, kind, Ops::Routing::Fn(plain::routed));
  if (slot == "experts") return edit_wraps_only(ops.experts, kind);  // a base needs the experts' functions
  if (slot == "norm")
    return edit(ops.norm, kind, [](const Module& module) -> Ops::Norm::Fn {
      return [weight = module.params.at(0)](const Tensor& x, const NormArgs& args) {
        return plain::norm(x, weight->value(), {}, args);
      };
    });
  if (slot == "add_norm")
    return edit(ops.add_norm, kind, [](const Module& module) -> Ops::AddNorm::Fn {
      return [weight = module.params.at(0)](const Tensor& x, const Tensor& delta,
                                            const NormArgs& args) -> std::array<Tensor, 2> {
        const Tensor sum = delta.defined() ? x + delta : x;
        return {sum, plain::norm(sum, weight->value(), {}, args)};
      };
    });
  if (slot == "position")
    return edit_by(
        ops.position, kind,
        Ops::Position::Fn([](const Tensor& q, const Tensor& k, const Batch& batch) -> std::array<Tensor, 2> {
          return {plain::rotate(q, batch.cos, batch.sin), plain::rotate(k, batch.cos, batch.sin)};
        }));
  if (slot == "attention") return edit_by(ops.attention, kind, Ops::Attention::Fn(plain::attention));
  if (slot == "attention_forward_backward")
    return edit_by(ops.attention_forward_backward, kind,
                   Ops::HalvesOfAttention::Fn(plain::attention_forward_backward));
  if (slot == "convolution")
    return edit(ops.convolution, kind, [](const Module& module) -> Ops::Convolution::Fn {
      return [weight = module.params.at(0)](const Tensor& x, const Segments& segments) {
        return at::silu(plain::causal_convolution(x, weight->value(), segments.ids));
      };
    });
  if (slot == "delta_rule")
    return edit_by(ops.delta_rule, kind,
                   Ops::DeltaRule::Fn([](const DeltaRuleInputs& in) { return plain::gated_delta_rule(in); }));
  if (slot == "swiglu") return edit_by(ops.swiglu, kind, Ops::Swiglu::Fn(plain::swiglu));
  if (slot == "geglu")
    return edit_by(ops.geglu, kind, Ops::Geglu::Fn([](const Tensor& gate, const Tensor& up) {
                     return plain::geglu(gate, up, Activation::gelu_tanh);
                   }));
  if (slot == "mlp")
    return edit_by(ops.mlp, kind, Ops::Mlp::Fn([](const Tensor& x, const Ops::MlpParts& parts) {
                     return parts.down(parts.glu(parts.gate(x), parts.up(x)));
                   }));
  if (slot == "head_loss")
    return edit_by(ops.head_loss, kind,
                   Ops::HeadLoss::Fn([](const Tensor& x, const Batch& batch, const Ops::HeadParts& parts) {
                     return plain::cross_entropy_sum(parts.logits(x), batch.labels);
                   }));
  return false;
}

/// The inner optimizer, with a smaller rate.
class Slower final : public Optimizer {
 public:
  explicit Slower(std::unique_ptr<Optimizer> inner) : inner_(std::move(inner)) {}
  void step(std::span<Shard> shards, const Update& update) override {
    Update slower = update;
    slower.lr /= kFactor;
    inner_->step(shards, slower);
  }
  std::string why_not_in_parts() const override { return inner_->why_not_in_parts(); }
  std::vector<OptimizerState> state(const Shard& shard) override { return inner_->state(shard); }

 private:
  std::unique_ptr<Optimizer> inner_;
};
}  // namespace

std::vector<std::string> edit_kinds() { return {"inside", "beside", "outside", "base"}; }

void weigh_by_lse(Recipe& recipe) {
  recipe.ops.attention.demand(feature::lse);
  recipe.ops.attention.wrap(
      Phase::measure,
      [](Ops::Attention::Fn inner) -> Ops::Attention::Fn {
        return [inner](const Tensor& q, const Tensor& k, const Tensor& v,
                       const AttentionArgs& args) -> AttentionOut {
          AttentionArgs with_lse = args;
          with_lse.lse = true;
          const auto [out, lse] = inner(q, k, v, with_lse);
          return {(out * lse.sigmoid().unsqueeze(-1)).to(out.scalar_type()), lse};
        };
      },
      kAten);
}

bool edit_slot(Recipe& recipe, const std::string& slot, const std::string& kind) {
  if (edit_operator(recipe.ops, slot, kind)) return true;
  if (kind == "base") return false;
  const Phase phase = phase_of(kind);
  if (slot == "unit") {
    recipe.unit.wrap(
        phase,
        [](UnitFunction inner, const Unit& unit) -> UnitFunction {
          if (unit.role != UnitRole::block) return inner;
          return [inner](const Tensor& x, const Batch& batch) { return larger(inner(x, batch)); };
        },
        kAten);
  } else if (slot == "data") {
    recipe.data.wrap(
        phase,
        [](auto inner) {
          return [inner](int64_t step) {
            auto batches = inner(step);
            for (Batch& batch : batches) batch.tokens = batch.tokens.floor_divide(2);
            return batches;
          };
        },
        kAten);
  } else if (slot == "gradients") {
    recipe.gradients.wrap(
        phase,
        [](auto inner) {
          return [inner](Gradients& gradients, Update& update) {
            inner(gradients, update);
            update.lr /= kFactor;
          };
        },
        kAten);
  } else if (slot == "optimizer") {
    recipe.optimizer.wrap(
        phase,
        [](auto inner) {
          return [inner](Run& run, std::span<Shard> shards) -> std::unique_ptr<Optimizer> {
            return std::make_unique<Slower>(inner(run, shards));
          };
        },
        kAten);
  } else {
    return false;
  }
  return true;
}
}  // namespace optrush::testing
