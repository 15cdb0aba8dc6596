#include "measure/flops.h"

#include <set>

namespace optrush {
namespace {
void matmul_parameters(const Unit& unit, std::set<const Param*>& found) {
  for (const auto& module : unit.modules)
    if (module.role == "linear" || module.role == "head_loss")
      for (const Param* param : module.params)
        if (param->shape.size() == 2) found.insert(param);
  for (const auto& child : unit.children) matmul_parameters(*child, found);
}
}  // namespace

ModelFlops model_flops(const Model& model) {
  std::set<const Param*> matmuls;
  for (const auto& unit : model.units) matmul_parameters(*unit, matmuls);
  double dense = 0;
  for (const Param* param : matmuls)
    dense += static_cast<double>(param->numel()) * (param->trainable ? 6 : 4);
  return {dense, model.attention_flops_of_a_pair};
}
}  // namespace optrush
