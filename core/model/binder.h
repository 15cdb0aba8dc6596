#pragma once
#include "optrush/ops.h"
#include "optrush/recipe.h"
#include "optrush/unit.h"

namespace optrush {
/// Resolves the operators of a model at its modules: the plain form, what replaced it, what wraps it. A model
/// asks it for functions and holds nothing else.
class Binder {
 public:
  explicit Binder(const Recipe& recipe) : recipe_(recipe) {}

  Ops::Embedding::Fn embedding(const Module&) const;
  Ops::Linear::Fn linear(const Module&) const;
  /// The linear without its bias: what the slot resolves to.
  Ops::Linear::Fn product(const Module&) const;
  Ops::Router::Fn router(const Module&) const;
  /// `plain`: the experts of this rank.
  Ops::Experts::Fn experts(const Module&, Ops::Experts::Fn plain) const;
  Ops::Norm::Fn norm(const Module&) const;
  Ops::AddNorm::Fn add_norm(const Module&) const;
  Ops::Position::Fn position(const Module&) const;
  Ops::Attention::Fn attention(const Module&) const;
  AttentionForwardBackward attention_forward_backward(const Module&) const;
  Ops::Swiglu::Fn swiglu(const Module&) const;
  Ops::Geglu::Fn geglu(const Module&, Activation) const;
  Ops::Mlp::Fn mlp(const Module&) const;
  Ops::HeadLoss::Fn head_loss(const Module&) const;
  /// The unit's own function with every wrap of the unit slot.
  UnitFunction unit(const Unit&) const;

 private:
  const Recipe& recipe_;
};
}  // namespace optrush
