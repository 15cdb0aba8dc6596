#include "measure/flops.h"

#include <map>

namespace optrush {
namespace {
/// Each matrix with the share of the tokens that it multiplies.
using Matmuls = std::map<const Param*, double>;

void find_matmuls(const Unit& unit, double share, Matmuls& found) {
  share *= unit.share_of_tokens;
  for (const auto& module : unit.modules)
    if (module.role == "linear" || module.role == "router" || module.role == "head_loss")
      for (const Param* param : module.params)
        if (param->shape.size() == 2) found.insert({param, share});
  for (const auto& child : unit.children) find_matmuls(*child, share, found);
}
}  // namespace

ModelFlops model_flops(const Model& model) {
  Matmuls matmuls;
  for (const auto& unit : model.units) find_matmuls(*unit, 1, matmuls);
  double dense = model.state_flops_of_a_token;
  for (const auto& [param, share] : matmuls)
    dense += share * static_cast<double>(param->numel()) * (param->trainable ? 6 : 4);
  return {dense, model.attention_flops_of_a_pair};
}
}  // namespace optrush
