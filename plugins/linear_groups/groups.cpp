#include "linear_groups/groups.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <utility>

#include "optrush/param.h"
#include "optrush/recipe.h"

namespace optrush {
namespace {
bool reads_the_input(const Module& module) {
  return module.role == "linear" && module.params.at(0)->axes.at(1) == "model";
}

void add_groups(const Unit& unit, std::vector<LinearGroup>& groups) {
  if (unit.role == UnitRole::attention || unit.role == UnitRole::mlp) {
    LinearGroup group;
    for (const Module& module : unit.modules)
      if (reads_the_input(module)) group.push_back(&module);
    if (group.size() > 1) groups.push_back(std::move(group));
  }
  for (const auto& child : unit.children) add_groups(*child, groups);
}
}  // namespace

std::vector<LinearGroup> linear_groups(const std::vector<std::unique_ptr<Unit>>& units) {
  std::vector<LinearGroup> groups;
  for (const auto& unit : units) add_groups(*unit, groups);
  return groups;
}

Tensor PartsOfInput::take(size_t linear, const Tensor& x, const Make& make) {
  const bool with_gradients = at::GradMode::is_enabled();
  const bool there = x_.defined() && x_.is_same(x) && with_gradients_ == with_gradients &&
                     linear < parts_.size() && parts_[linear].defined();
  if (!there) {
    drop();
    parts_ = make();
    x_ = x;
    with_gradients_ = with_gradients;
  }
  Tensor part = std::exchange(parts_.at(linear), Tensor());
  if (std::ranges::none_of(parts_, [](const Tensor& left) { return left.defined(); })) drop();
  return part;
}

void PartsOfInput::drop() {
  x_.reset();
  parts_.clear();
}

void drop_after_units(Recipe& recipe, const std::function<PartsOfInput*(const Unit&)>& parts_of) {
  recipe.unit.wrap(Phase::base,
                   [parts_of](UnitFunction inner, const Unit& unit) -> UnitFunction {
                     PartsOfInput* parts = parts_of(unit);
                     if (parts == nullptr) return inner;
                     return [parts, inner = std::move(inner)](const Tensor& x, const Batch& batch) {
                       Tensor out = inner(x, batch);
                       parts->drop();
                       return out;
                     };
                   },
                   {.trace = Trace::aten, .capturable = true});
}
}  // namespace optrush
