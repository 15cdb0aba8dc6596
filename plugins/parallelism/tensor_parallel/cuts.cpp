#include "cuts.h"

#include <algorithm>
#include <functional>
#include <set>

#include "optrush/error.h"
#include "optrush/unit.h"

namespace optrush::tensor_parallel {
namespace {
void add(std::vector<std::string>& dims, const Mesh::Names& more) {
  for (const auto& dim : more)
    if (std::ranges::find(dims, dim) == dims.end()) dims.push_back(dim);
}

bool is_cut(const Param& param, const AxisCuts& cuts) {
  return std::ranges::any_of(param.axes, [&](const auto& axis) { return cuts.contains(axis); });
}

void cut(Param& param, const AxisCuts& cuts, const Mesh& mesh) {
  for (size_t axis = 0; axis < param.axes.size(); ++axis) {
    const auto found = cuts.find(param.axes[axis]);
    if (found == cuts.end()) continue;
    if (const auto& [over, copied, grain, elements] = found->second;
        elements != 0 && param.shape[axis] != elements)
      throw Error("tensor_parallel cannot split '" + param.name + "': its axis '" + param.axes[axis] +
                      "' has " + std::to_string(param.shape[axis]) + " elements, but such an axis has " +
                      std::to_string(elements) + ", " + std::to_string(grain) + " for each head",
                  "give an axis with one element for each head another label, or remove tensor_parallel");
    const auto [begin, end] = range_of(found->second, param.shape[axis], mesh, param.name);
    param.layout = param.layout.cut(static_cast<int64_t>(axis), begin, end);
    add(param.sharded_over, found->second.over);
    add(param.partial_over, found->second.copied);
  }
}

void visit(const Unit& unit, const std::function<void(const Unit&)>& see) {
  see(unit);
  for (const auto& child : unit.children) visit(*child, see);
}
/// Whether the unit is a region, or the experts or the shared expert inside of one.
bool is_part_of_region(const Unit& unit) {
  return unit.role == UnitRole::attention || unit.role == UnitRole::mlp || unit.role == UnitRole::experts ||
         unit.role == UnitRole::mixture;
}
}  // namespace

bool is_region(const Unit& unit, const LlamaSpec& model) {
  if (unit.role == UnitRole::mlp) return !model.has_experts(unit.layer);
  if (unit.role == UnitRole::experts) return model.shared_expert_ffn_dim == 0;
  return is_part_of_region(unit);
}

Range range_of(const AxisCut& cut, int64_t elements, const Mesh& mesh, const std::string& what) {
  const int64_t ranks = mesh.size(cut.over), rank = mesh.rank(cut.over), grains = elements / cut.grain;
  if (grains < ranks)
    throw Error("tensor_parallel cannot split '" + what + "': " + std::to_string(grains) + " parts for " +
                    std::to_string(ranks) + " ranks",
                "use at most size = " + std::to_string(grains));
  // The first ranks have the larger parts, so a plan of rank 0 has the largest memory.
  const auto begin = [&](int64_t of) { return (grains * of + ranks - 1) / ranks * cut.grain; };
  return {begin(rank), begin(rank + 1)};
}

void cut_parameters(Run& run, const AxisCuts& cuts, const Mesh::Names& ranks, bool by_sequence) {
  for (Param* param : run.params().all()) cut(*param, cuts, run.mesh());
  const auto partial = [&](Param* param) {
    if (!is_cut(*param, cuts)) add(param->partial_over, ranks);
  };
  for (const auto& top : run.units())
    visit(*top, [&](const Unit& unit) {
      if (is_part_of_region(unit)) std::ranges::for_each(unit.params(), partial);
      for (const Module& module : unit.modules) {
        const bool norm = module.role == "norm" || module.role == "add_norm";
        if ((unit.role == UnitRole::head && module.role == "linear") || (norm && by_sequence))
          std::ranges::for_each(module.params, partial);
      }
    });
}
}  // namespace optrush::tensor_parallel
