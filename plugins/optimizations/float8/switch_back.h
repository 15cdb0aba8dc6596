#pragma once
#include <cstdint>
#include <limits>

#include "optrush/recipe.h"

namespace optrush::float8 {
/// The step from which on linears have their plain form.
class SwitchBack {
 public:
  SwitchBack() = default;
  /// After the fraction `until` of the run's steps, with warm-up. Throws an Error if the number of steps is
  /// not known in advance, or if no step before the switch is left.
  SwitchBack(const RunSpec&, double until);

  /// Throws an Error if a plugin records code that is the same in every step. Notes the step.
  void check(const optrush::Recipe&, Run&) const;
  bool is_past(int64_t step) const { return step >= step_; }

 private:
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
  int64_t step_ = kNever;
};
}  // namespace optrush::float8
