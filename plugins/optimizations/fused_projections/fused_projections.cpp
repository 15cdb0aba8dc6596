// q, k and v of an attention, and gate and up of an MLP, as one operator each, because they multiply the same
// input. Separate linears compute its gradient one after another, and each but the first is added in a
// separate pass: three passes a block over tensors of the model's width. Here one product gives the gradient
// of the input and another those of the matrices, for which the matrices are moved together in memory, and
// kernels of other plugins may write the gradients of the outputs together (joined_gradients.h). If they do
// not, the gradients of q, k and v are concatenated if that is less work than products that accumulate. The
// matrices remain separate parameters, so checkpoints, states and adapters see no difference. The forward has
// the bits of separate linears.
//
// It pays least if the products are so large that the passes are negligible, or if a compiler fuses the
// passes: in blocks that `compile` compiles, the plain linears are traced.
#include <algorithm>
#include <deque>
#include <map>

#include "joined_memory/joined_memory.h"
#include "linear_groups/groups.h"
#include "optrush/plugin.h"
#include "projections.h"

namespace {
using namespace optrush;
using namespace optrush::fused_projections;

class FusedProjections final : public Plugin {
 public:
  void apply(Recipe& recipe, const Options&) override {
    const Traits traits{.trace = Trace::opaque,
                        .capturable = true,
                        .offers = {feature::fp64, feature::plain_products},
                        .predictable = true};
    recipe.on(Event::materialized, Phase::base, [this](Run& run) { find_groups(run); });
    recipe.ops.linear.replace_each([this](const Module& module) { return member(module); }, traits);
    drop_after_units(recipe, [this](const Unit& unit) { return parts_of(unit); });
  }

 private:
  struct Group {
    std::vector<const Param*> matrices;
    Differentiable of_variable, of_constant;  ///< whether x has a gradient
    PartsOfInput parts;
  };
  struct Place {
    Group* group = nullptr;
    size_t linear = 0;
  };

  void find_groups(Run& run) {
    for (const LinearGroup& linears : linear_groups(run.units())) {
      std::vector<Param*> matrices;
      for (const Module* linear : linears) matrices.push_back(linear->params.at(0));
      if (std::ranges::any_of(matrices, [](const Param* matrix) { return matrix->codec != nullptr; }))
        continue;
      Wanted wanted;
      for (const Param* matrix : matrices) wanted.matrices.push_back(matrix->trainable);
      lay_together(matrices, run);
      Group& group = groups_.emplace_back();
      group.matrices.assign(matrices.begin(), matrices.end());
      group.of_variable = make_projections(wanted);
      wanted.x = false;
      group.of_constant = make_projections(wanted);
      for (size_t i = 0; i < linears.size(); ++i) places_[linears[i]] = {&group, i};
    }
    if (groups_.empty())
      throw Error("fused_projections does not apply: no two linear layers of this model share an input",
                  "remove the rung");
  }

  PartsOfInput* parts_of(const Unit& unit) {
    for (const Module& module : unit.modules)
      if (const auto found = places_.find(&module); found != places_.end())
        return &found->second.group->parts;
    return nullptr;
  }

  Ops::Linear::Fn member(const Module& module) {
    const auto found = places_.find(&module);
    if (found == places_.end()) return {};
    return [place = found->second](const Tensor& x) {
      Group& group = *place.group;
      return group.parts.take(place.linear, x, [&] {
        Tensors inputs = {x};
        for (const Param* matrix : group.matrices) inputs.push_back(matrix->compute_value());
        return call(x.requires_grad() ? group.of_variable : group.of_constant, std::move(inputs));
      });
    };
  }

  std::deque<Group> groups_;  // addresses must last
  std::map<const Module*, Place> places_;
};
}  // namespace

OPTRUSH_PLUGIN(FusedProjections, R"json({
  "name": "fused_projections", "version": "0.1.0", "kind": "optimization", "effect": "rounding",
  "summary": "q, k and v, and gate and up, with one backward each: fewer and larger products, and no separate additions of gradients",
  "conflicts": ["nf4"],
  "options": []
})json");
