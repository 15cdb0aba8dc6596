// The experts of a mixture as three products (MegaBlocks, arXiv:2211.15841): gate, up and down of all
// experts at once, with one gated unit over all rows between them. Experts without a gate have two products.
// On an NVIDIA GPU from Hopper on, a product in bf16 is LibTorch's grouped kernel. It reads the number of
// rows of each expert from the device, so the host does not wait for the router. Elsewhere a product is a
// loop over the experts. The gated unit is still one call, and autograd has three nodes for all experts. The
// matrices of the experts lie in one memory, where the kernel reads them. They stay separate parameters.
//
// It pays with many experts that have few rows each. If each expert has enough rows to fill the device, the
// products take most of the time, and the plugin does not change them.
#include <ATen/Functions.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "grouped_product.h"
#include "joined_memory/joined_memory.h"
#include "kernel_parts/compute_capability.h"
#include "optrush/plugin.h"

namespace {
using namespace optrush;
using namespace optrush::grouped_experts;

constexpr int64_t kAlignment = 8;  // numbers of bf16 at which the kernel's rows begin
constexpr int kOldestGpu = 90;

class GroupedExperts final : public Plugin {
 public:
  void apply(Recipe& recipe, const Options&) override {
    const RunSpec& spec = recipe.spec();
    const LlamaSpec model = spec.model_kind == "llama" ? llama_of(spec) : LlamaSpec{};
    if (model.n_experts == 0)
      throw Error("grouped_experts does not apply: this model has no mixture of experts",
                  "use a model with n_experts, or remove the rung");
    if (model.expert_bias)
      throw Error("grouped_experts does not support expert_bias: its products have no biases",
                  "remove the rung");
    gated_ = model.has_gate();
    recipe.ops.linear.demand(feature::plain_products);
    recipe.ops.mlp.demand(feature::plain_products);
    take_gated_units(recipe.ops.swiglu);
    take_gated_units(recipe.ops.geglu);
    recipe.on(Event::materialized, Phase::base, [this](Run& run) { find_mixtures(run); });
    recipe.ops.experts.replace_each([this](const Module& module) { return experts_of(module); },
                                    {.trace = Trace::opaque, .offers = {feature::fp64}, .predictable = true});
  }

 private:
  /// One of the three matrices of all experts of a mixture.
  struct Linear {
    std::vector<Param*> matrices;
    Differentiable product;

    Tensor operator()(const Tensor& x, const Tensor& ends) const {
      Tensors inputs = {x, ends};
      for (const Param* matrix : matrices) inputs.push_back(matrix->compute_value());
      return call(product, std::move(inputs)).at(0);
    }
  };
  struct Mixture {
    Linear gate, up, down;  ///< gate without matrices: the experts have no gate
    bool ends_on_host = true;
    const Module* gated_unit = nullptr;  ///< of its first expert
  };

  /// The activations that the experts resolve to, with the edits of all other plugins.
  template <class GatedUnit>
  void take_gated_units(GatedUnit& slot) {
    slot.wrap(Phase::measure,
              [this](auto inner, const Module& module) -> decltype(inner) {
                gated_units_[&module] = inner;
                return inner;
              },
              {.trace = Trace::aten, .capturable = true});
  }

  static Tensor squared_relu(const Tensor& /*gate*/, const Tensor& up) { return at::relu(up).square(); }

  void find_mixtures(Run& run) {
    for (const auto& chunk : run.chunks())
      for (const Unit* unit : chunk) find_mixtures(*unit, run);
    const bool all =
        std::ranges::all_of(mixtures_, [](const auto& each) { return !each.second.ends_on_host; });
    if (run.device().is_cuda() && !all)
      run.note(
          "the experts of a mixture are multiplied one by one: the grouped kernel needs bf16 matrices, "
          "widths that are multiples of " +
          std::to_string(kAlignment) + ", and a GPU of compute capability 9.0 or newer");
  }

  void find_mixtures(const Unit& unit, Run& run) {
    for (const auto& child : unit.children) find_mixtures(*child, run);
    if (unit.role != UnitRole::experts || unit.children.empty()) return;
    const auto module = std::ranges::find(unit.modules, "experts", &Module::role);
    Mixture& mixture = mixtures_[&*module];
    std::vector<Param*> all;
    for (const auto& expert : unit.children) {
      std::vector<Linear*> places = {&mixture.up, &mixture.down};
      if (gated_) places.insert(places.begin(), &mixture.gate);
      size_t next = 0;
      for (const Module& part : expert->modules) {
        if ((part.role == "swiglu" || part.role == "geglu") && mixture.gated_unit == nullptr)
          mixture.gated_unit = &part;
        if (part.role != "linear") continue;
        refuse_additions(part);
        places.at(next++)->matrices.push_back(part.params.front());
        all.push_back(part.params.front());
      }
    }
    lay_together(all, run);
    const bool grouped = has_kernel(all, run.device());
    mixture.ends_on_host = !grouped;
    for (Linear* linear : {&mixture.gate, &mixture.up, &mixture.down})
      linear->product = make_grouped_product(
          {.products = grouped ? Products::grouped : Products::one_by_one,
           .trains = std::ranges::any_of(linear->matrices, [](const Param* each) { return each->trainable; }),
           .clear_idle = grouped && fused::compute_capability() > kOldestGpu});
  }

  static void refuse_additions(const Module& linear) {
    const Param& matrix = *linear.params.front();
    if (linear.params.size() > 1)
      throw Error(ErrorCode::conflict,
                  "grouped_experts would ignore '" + linear.params[1]->name +
                      "', which another plugin added to " + linear.path,
                  "remove the experts from the adapter's targets, or grouped_experts from the stack");
    if (matrix.codec != nullptr)
      throw Error(ErrorCode::conflict,
                  "grouped_experts does not multiply encoded matrices, as '" + matrix.name + "' is",
                  "remove grouped_experts or the plugin that encodes parameters from the stack");
  }

  static bool has_kernel(const std::vector<Param*>& matrices, at::Device device) {
    const bool fits = std::ranges::all_of(matrices, [](const Param* matrix) {
      const auto here = matrix->layout.box_shape();  // of this rank
      return matrix->compute_dtype.value_or(matrix->dtype) == at::kBFloat16 && here[0] % kAlignment == 0 &&
             here[1] % kAlignment == 0;
    });
    return fits && form_of(device) == at::kCUDA && fused::compute_capability() >= kOldestGpu;
  }

  Ops::Experts::Fn experts_of(const Module& module) {
    const auto found = mixtures_.find(&module);
    if (found == mixtures_.end()) return {};
    const Mixture& mixture = found->second;
    const std::function<Tensor(const Tensor&, const Tensor&)> unit =
        gated_ ? gated_units_.at(mixture.gated_unit) : squared_relu;
    return [&mixture, unit, gated = gated_](const Tensor& rows, const Tensor& counts, const Batch&) {
      Tensor ends = counts.cumsum(0).to(at::kInt);
      if (mixture.ends_on_host && !is_forecast(ends)) ends = ends.cpu();
      const Tensor gate = gated ? mixture.gate(rows, ends) : Tensor();
      return mixture.down(unit(gate, mixture.up(rows, ends)), ends);
    };
  }

  bool gated_ = true;
  std::map<const Module*, Mixture> mixtures_;  // addresses are stable
  std::map<const Module*, std::function<Tensor(const Tensor&, const Tensor&)>> gated_units_;
};
}  // namespace

OPTRUSH_PLUGIN(GroupedExperts, R"json({
  "name": "grouped_experts", "version": "0.1.0", "kind": "optimization", "effect": "rounding",
  "summary": "the experts of a mixture as three products, on Hopper GPUs and later by one kernel each",
  "doc": "The kernel needs bf16 matrices (mixed_precision or bf16_weights) and widths that are multiples of 8. Otherwise the products are a loop over the experts.",
  "conflicts": ["nf4", "swiglu_recompute"],
  "check": [{"model": "experts"}],
  "options": []
})json");
