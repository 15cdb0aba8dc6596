#include "model/binder.h"

#include <ATen/Functions.h>

#include "model/operators.h"
#include "optrush/host/resolve.h"
#include "optrush/param.h"

namespace optrush {
namespace {
Tensor value_of(const Site& site, size_t index) {
  return index < site.params.size() ? site.params[index]->value() : Tensor();
}
}  // namespace

Ops::Embedding::Fn Binder::embedding(const Site& site) const {
  return recipe_.ops.embedding.resolve(site, [weight = site.params.at(0)](const Tensor& tokens) {
    return at::embedding(weight->value(), tokens);
  });
}

Ops::Linear::Fn Binder::linear(const Site& site) const {
  return recipe_.ops.linear.resolve(
      site, [weight = site.params.at(0)](const Tensor& x) { return at::linear(x, weight->operand()); });
}

Ops::Norm::Fn Binder::norm(const Site& site) const {
  return recipe_.ops.norm.resolve(site, [&site](const Tensor& x, const NormArgs& args) {
    return plain::norm(x, value_of(site, 0), value_of(site, 1), args);
  });
}

Ops::AddNorm::Fn Binder::add_norm(const Site& site) const {
  return recipe_.ops.add_norm.resolve(site,
                                      [norm = norm(site)](const Tensor& x, const Tensor& delta,
                                                          const NormArgs& args) -> std::array<Tensor, 2> {
                                        const Tensor sum = delta.defined() ? x + delta : x;
                                        return {sum, norm(sum, args)};
                                      });
}

Ops::Position::Fn Binder::position(const Site& site) const {
  return recipe_.ops.position.resolve(
      site, [](const Tensor& q, const Tensor& k, const Batch& batch) -> std::array<Tensor, 2> {
        return {plain::rotate(q, batch.cos, batch.sin), plain::rotate(k, batch.cos, batch.sin)};
      });
}

Ops::Attention::Fn Binder::attention(const Site& site) const {
  return recipe_.ops.attention.resolve(site, plain::attention);
}

AttentionHalves Binder::attention_halves(const Site& site) const {
  return recipe_.ops.attention_halves.resolve(site, plain::attention_halves)();
}

Ops::Swiglu::Fn Binder::swiglu(const Site& site) const {
  return recipe_.ops.swiglu.resolve(site, plain::swiglu);
}

Ops::Mlp::Fn Binder::mlp(const Site& site) const {
  return recipe_.ops.mlp.resolve(site, [](const Tensor& x, const Ops::MlpParts& parts) {
    return parts.down(parts.swiglu(parts.gate(x), parts.up(x)));
  });
}

Ops::HeadLoss::Fn Binder::head_loss(const Site& site) const {
  // Made at the first call: only then it is known that there is a part.
  return recipe_.ops.head_loss.resolve(
      site, [of_part = std::make_shared<std::optional<Differentiable>>()](
                const Tensor& x, const Tensor& labels, const Ops::HeadParts& parts) {
        if (!parts.part) return plain::cross_entropy_sum(parts.logits(x), labels);
        if (!*of_part) of_part->emplace(plain::cross_entropy_of_part(*parts.part));
        return call(**of_part, {parts.logits(x), labels}).at(0);
      });
}

UnitFunction Binder::unit(const Unit& unit) const { return recipe_.unit.resolve(unit, unit.build(*this)); }
}  // namespace optrush
