#pragma once
#include "optrush/ops.h"
#include "optrush/recipe.h"
#include "optrush/unit.h"

namespace optrush {
/// Resolves the operators of a model at its sites: the plain form, what replaced it, what wraps it. A model
/// asks it for functions and holds nothing else.
class Binder {
 public:
  explicit Binder(const Recipe& recipe) : recipe_(recipe) {}

  Ops::Embedding::Fn embedding(const Site&) const;
  Ops::Linear::Fn linear(const Site&) const;
  Ops::Norm::Fn norm(const Site&) const;
  Ops::AddNorm::Fn add_norm(const Site&) const;
  Ops::Position::Fn position(const Site&) const;
  Ops::Attention::Fn attention(const Site&) const;
  AttentionHalves attention_halves(const Site&) const;
  Ops::Swiglu::Fn swiglu(const Site&) const;
  Ops::Mlp::Fn mlp(const Site&) const;
  Ops::HeadLoss::Fn head_loss(const Site&) const;
  /// The unit's own function with every wrap of the unit slot.
  UnitFunction unit(const Unit&) const;

 private:
  const Recipe& recipe_;
};
}  // namespace optrush
