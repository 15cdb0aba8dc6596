#pragma once
#include <utility>
#include <vector>

#include "optrush/recipe.h"
#include "optrush/run.h"

namespace optrush {
/// Some operators hold the matrices of linears: `mlp` those of gate, up and down, `head_loss` that of
/// lm_head. A base that replaces such an operator and multiplies with them itself leaves out what an adapter
/// added to the linears, and the run would train another model than its script says. The host refuses that,
/// unless the base offers "adapters".
class LostAdapters {
 public:
  /// Before plugins add parameters.
  explicit LostAdapters(const Run&);
  /// After it; an Error names the base, the plugins that wrap `linear` as adapters, and the parameter.
  void refuse(const Recipe&) const;

 private:
  void refuse(const SlotInfo& slot, const std::string& role, const Recipe&) const;

  const Run& run_;
  std::vector<std::pair<const Module*, size_t>>
      declared_;  ///< linears, and how many parameters the model gave them
};
}  // namespace optrush
