#pragma once
#include "optrush/ops.h"
#include "optrush/recipe.h"
#include "optrush/unit.h"

namespace optrush {
/// Resolves the operator slots for the modules of a model: the base or its replacement, and the wraps. It is
/// a model's only access to the recipe.
class Binder {
 public:
  explicit Binder(const Recipe& recipe) : recipe_(recipe) {}

  Ops::Embedding::Fn embedding(const Module&) const;
  Ops::Linear::Fn linear(const Module&) const;
  /// The linear without its bias: the result of the slot.
  Ops::Linear::Fn product(const Module&) const;
  Ops::Router::Fn router(const Module&) const;
  Ops::Routing::Fn routing(const Module& router) const;
  /// `plain`: the base, which computes the experts of this rank.
  Ops::Experts::Fn experts(const Module&, Ops::Experts::Fn plain) const;
  Ops::Norm::Fn norm(const Module&) const;
  Ops::AddNorm::Fn add_norm(const Module&) const;
  Ops::Position::Fn position(const Module&) const;
  Ops::Attention::Fn attention(const Module&) const;
  AttentionForwardBackward attention_forward_backward(const Module&) const;
  Ops::Convolution::Fn convolution(const Module&) const;
  Ops::DeltaRule::Fn delta_rule(const Module&) const;
  Ops::Swiglu::Fn swiglu(const Module&) const;
  Ops::Geglu::Fn geglu(const Module&, Activation) const;
  Ops::Mlp::Fn mlp(const Module&) const;
  Ops::HeadLoss::Fn head_loss(const Module&) const;
  /// The unit's function with all wraps of the unit slot.
  UnitFunction unit(const Unit&) const;

 private:
  const Recipe& recipe_;
};
}  // namespace optrush
