#pragma once
#include <utility>
#include <vector>

#include "optrush/recipe.h"
#include "optrush/run.h"

namespace optrush {
/// Refuses bases that would drop adapters. Some operators use the matrices of linears: `mlp` those of gate,
/// up and down, `head_loss` that of lm_head. A base of such an operator that multiplies with these matrices
/// itself would ignore what an adapter added to the linears, so the run would train another model than its
/// script states. Only a base that offers "adapters" is allowed.
class LostAdapters {
 public:
  /// Called before plugins add parameters.
  explicit LostAdapters(const Run&);
  /// Called after that. Throws an Error that names the base, the plugins that wrap `linear` as adapters, and
  /// the parameter.
  void refuse(const Recipe&) const;

 private:
  void refuse(const SlotInfo& slot, const std::string& role, const Recipe&) const;

  const Run& run_;
  std::vector<std::pair<const Module*, size_t>>
      declared_;  ///< each linear with the number of parameters that the model gave it
};
}  // namespace optrush
