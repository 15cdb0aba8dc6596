#include "model/binder.h"

#include <ATen/Functions.h>

#include "model/delta_rule.h"
#include "model/operators.h"
#include "optrush/host/resolve.h"
#include "optrush/param.h"

namespace optrush {
namespace {
Tensor value_of(const Module& module, size_t index) {
  return index < module.params.size() ? module.params[index]->value() : Tensor();
}
}  // namespace

Ops::Embedding::Fn Binder::embedding(const Module& module) const {
  return recipe_.ops.embedding.resolve(module, [weight = module.params.at(0)](const Tensor& tokens) {
    return at::embedding(weight->value(), tokens);
  });
}

Ops::Linear::Fn Binder::product(const Module& module) const {
  return recipe_.ops.linear.resolve(module, [weight = module.params.at(0)](const Tensor& x) {
    return at::linear(x, weight->compute_value());
  });
}

Ops::Linear::Fn Binder::linear(const Module& module) const {
  const Param* bias = module.bias();
  if (bias == nullptr) return product(module);
  return [product = product(module), bias](const Tensor& x) {
    const Tensor out = product(x);
    return out + bias->compute_value().to(out.scalar_type());
  };
}

Ops::Router::Fn Binder::router(const Module& module) const {
  return recipe_.ops.router.resolve(
      module, [weight = module.params.at(0), bias = module.bias()](const Tensor& x) {
        const Tensor logits = at::linear(x, weight->value());
        return bias == nullptr ? logits : logits + bias->value().to(logits.scalar_type());
      });
}

Ops::Routing::Fn Binder::routing(const Module& router) const {
  return recipe_.ops.routing.resolve(router, plain::routed);
}

Ops::Experts::Fn Binder::experts(const Module& module, Ops::Experts::Fn plain) const {
  return recipe_.ops.experts.resolve(module, std::move(plain));
}

Ops::Norm::Fn Binder::norm(const Module& module) const {
  return recipe_.ops.norm.resolve(module, [&module](const Tensor& x, const NormArgs& args) {
    return plain::norm(x, value_of(module, 0), value_of(module, 1), args);
  });
}

Ops::AddNorm::Fn Binder::add_norm(const Module& module) const {
  return recipe_.ops.add_norm.resolve(module,
                                      [norm = norm(module)](const Tensor& x, const Tensor& delta,
                                                            const NormArgs& args) -> std::array<Tensor, 2> {
                                        const Tensor sum = delta.defined() ? x + delta : x;
                                        return {sum, norm(sum, args)};
                                      });
}

Ops::Position::Fn Binder::position(const Module& module) const {
  return recipe_.ops.position.resolve(
      module, [](const Tensor& q, const Tensor& k, const Batch& batch) -> std::array<Tensor, 2> {
        return {plain::rotate(q, batch.cos, batch.sin), plain::rotate(k, batch.cos, batch.sin)};
      });
}

Ops::Attention::Fn Binder::attention(const Module& module) const {
  return recipe_.ops.attention.resolve(module, plain::attention);
}

AttentionForwardBackward Binder::attention_forward_backward(const Module& module) const {
  return recipe_.ops.attention_forward_backward.resolve(module, plain::attention_forward_backward)();
}

Ops::Convolution::Fn Binder::convolution(const Module& module) const {
  return recipe_.ops.convolution.resolve(module, [weight = module.params.at(0), bias = module.bias()](
                                                     const Tensor& x, const Segments& segments) {
    const auto type = x.scalar_type();
    const Tensor sum = plain::causal_convolution(x, weight->value().to(type), segments.ids);
    return at::silu(bias == nullptr ? sum : sum + bias->value().to(type));
  });
}

Ops::DeltaRule::Fn Binder::delta_rule(const Module& module) const {
  return recipe_.ops.delta_rule.resolve(
      module, [](const DeltaRuleInputs& in) { return plain::gated_delta_rule(in); });
}

Ops::Swiglu::Fn Binder::swiglu(const Module& module) const {
  return recipe_.ops.swiglu.resolve(module, plain::swiglu);
}

Ops::Geglu::Fn Binder::geglu(const Module& module, Activation activation) const {
  return recipe_.ops.geglu.resolve(module, [activation](const Tensor& gate, const Tensor& up) {
    return plain::geglu(gate, up, activation);
  });
}

Ops::Mlp::Fn Binder::mlp(const Module& module) const {
  return recipe_.ops.mlp.resolve(module, [](const Tensor& x, const Ops::MlpParts& parts) {
    return parts.down(parts.glu(parts.gate ? parts.gate(x) : Tensor(), parts.up(x)));
  });
}

Ops::HeadLoss::Fn Binder::head_loss(const Module& module) const {
  // Created at the first call, because it is known only then that the head has a part of the vocabulary.
  return recipe_.ops.head_loss.resolve(module,
                                       [of_part = std::make_shared<std::optional<Differentiable>>()](
                                           const Tensor& x, const Batch& batch, const Ops::HeadParts& parts) {
                                         if (!parts.part)
                                           return plain::cross_entropy_sum(parts.logits(x), batch.labels);
                                         if (!*of_part)
                                           of_part->emplace(plain::cross_entropy_of_part(*parts.part));
                                         return call(**of_part, {parts.logits(x), batch.labels}).at(0);
                                       });
}

UnitFunction Binder::unit(const Unit& unit) const { return recipe_.unit.resolve(unit, unit.build(*this)); }
}  // namespace optrush
