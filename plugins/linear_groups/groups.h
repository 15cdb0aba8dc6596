#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "optrush/tensor.h"
#include "optrush/unit.h"

namespace optrush {
class Recipe;

/// Linears of one unit with the same input: q, k and v of an attention, gate and up of an MLP.
using LinearGroup = std::vector<const Module*>;

/// The groups of two and more linears in these units and their children, in order of the forward. They are
/// found by the axis label of the columns of their matrices: the width of the model, which the unit's input
/// has.
std::vector<LinearGroup> linear_groups(const std::vector<std::unique_ptr<Unit>>& units);

/// The parts that all linears of a group need of one input. The first linear that is called with the input
/// makes all of them. Each linear takes its part once; the next call with that input makes all parts again.
class PartsOfInput {
 public:
  using Make = std::function<Tensors()>;
  /// `make` gives one tensor for each linear of the group.
  Tensor take(size_t linear, const Tensor& x, const Make& make);
  /// Frees the parts that no linear took.
  void drop();

 private:
  Tensor x_;
  bool with_gradients_ = false;
  Tensors parts_;
};

/// Frees the remaining parts of a unit's group at the end of each call of the unit, because a recomputation
/// may leave out linears. `parts_of` returns null if a unit has no group. It is called after
/// Event::materialized.
void drop_after_units(Recipe&, const std::function<PartsOfInput*(const Unit&)>& parts_of);
}  // namespace optrush
