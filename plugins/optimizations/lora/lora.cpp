// LoRA (arXiv:2106.09685): the model is frozen. An update B A x alpha / rank is added to chosen linears W x
// and trained, with A (rank, in) and B (out, rank). Gradients and optimizer state exist only for A and B. The
// backward has a third fewer matmuls. B starts at zero, so the first forward is the model's own. It trains
// another function than full fine-tuning, and so is compared with its own plain form.
#include <ATen/Functions.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "optrush/plugin.h"
#include "optrush/scopes.h"

namespace {
using namespace optrush;

std::string last_name(const std::string& path) { return path.substr(path.rfind('.') + 1); }

class Lora final : public Plugin {
 public:
  void apply(Recipe& recipe, const Options& options) override {
    rank_ = options.integer("rank");
    scale_ = options.number("alpha") / static_cast<double>(rank_);
    dropout_ = options.number("dropout");
    targets_ = options.list("target_modules");
    recipe.describe("peft", {{"peft_type", "LORA"},
                             {"task_type", "CAUSAL_LM"},
                             {"r", rank_},
                             {"lora_alpha", options.number("alpha")},
                             {"lora_dropout", dropout_},
                             {"target_modules", targets_},
                             {"bias", "none"}});
    recipe.on(Event::meta_initialized, Phase::adapter, [this](Run& run) { adapt(run); });
    recipe.ops.linear.wrap(Phase::adapter,
                           [this, &mesh = recipe.mesh](auto inner, const Module& module) {
                             return wrap(std::move(inner), module, mesh);
                           },
                           {.trace = Trace::aten, .capturable = true});
  }

 private:
  struct Pair {
    Param *down, *up;
  };

  void adapt(Run& run) {
    if (targets_.empty())
      throw Error(ErrorCode::missing_value, "target_modules is empty, so no parameter would be trained",
                  "name linear layers, for example { \"q_proj\", \"v_proj\" }");
    for (Param* param : run.params().all()) param->trainable = false;
    std::set<std::string> names;
    for (Module* module : run.modules("linear")) {
      names.insert(last_name(module->path));
      if (std::find(targets_.begin(), targets_.end(), last_name(module->path)) != targets_.end())
        pairs_[module->path] = add_pair(run.params(), *module);
    }
    for (const auto& target : targets_) {
      if (names.contains(target)) continue;
      std::string known;
      for (const auto& name : names) known += (known.empty() ? "" : ", ") + name;
      throw Error(ErrorCode::unknown_name,
                  "target_modules names '" + target + "', but this model has no such linear layer",
                  known.empty() ? "remove the rung: the model has no linear layers" : "one of: " + known);
    }
  }

  Pair add_pair(Params& params, Module& module) const {
    const Param& weight = *module.params.at(0);
    const auto uniform = [bound = 1 / std::sqrt(static_cast<double>(weight.shape[1]))](Tensor& value,
                                                                                       at::Generator& g) {
      value.uniform_(-bound, bound, g);  // kaiming_uniform(a = sqrt(5)), as PEFT
    };
    const auto zero = [](Tensor& value, at::Generator&) { value.zero_(); };
    Param& down = params.add({.name = module.path + ".lora_A.weight",
                              .shape = {rank_, weight.shape[1]},
                              .axes = {"rank", weight.axes[1]},
                              .init = uniform,
                              .dtype = weight.dtype});
    Param& up = params.add({.name = module.path + ".lora_B.weight",
                            .shape = {weight.shape[0], rank_},
                            .axes = {weight.axes[0], "rank"},
                            .init = zero,
                            .dtype = weight.dtype});
    module.params.push_back(&down);
    module.params.push_back(&up);
    return {&down, &up};
  }

  Ops::Linear::Fn wrap(Ops::Linear::Fn inner, const Module& module, const Mesh& mesh) const {
    const auto found = pairs_.find(module.path);
    if (found == pairs_.end()) return inner;
    if (const Param& down = *found->second.down;
        dropout_ > 0 && (down.layout.box_shape().at(1) < down.shape[1] || mesh.size(mesh.sequence()) > 1))
      throw Error(
          "lora: dropout is not supported for '" + module.path + "', whose input is sharded over ranks",
          "set dropout = 0, or remove '" + last_name(module.path) + "' from target_modules");
    return [inner = std::move(inner), pair = found->second, scale = scale_,
            dropout = dropout_](const Tensor& x) {
      if (without_adapters()) return inner(x);
      const Tensor dropped = dropout > 0 && !evaluating() ? at::dropout(x, dropout, /*train=*/true) : x;
      const Tensor out = inner(x);
      const Tensor low = at::linear(dropped, pair.down->compute_value());
      // One product adds to the output. A separate update, and its scaled form, would be two more tensors of
      // the output's size, also in the backward.
      return at::addmm(out.flatten(0, -2), low.flatten(0, -2), pair.up->compute_value().t(), /*beta=*/1,
                       scale)
          .view_as(out);
    };
  }

  int64_t rank_ = 0;
  double scale_ = 0, dropout_ = 0;
  std::vector<std::string> targets_;
  std::map<std::string, Pair> pairs_;
};
}  // namespace

OPTRUSH_PLUGIN(Lora, R"json({
  "name": "lora", "version": "0.1.0", "kind": "optimization", "effect": "model",
  "summary": "trained low-rank updates beside frozen weights",
  "check": [{"options": {"rank": 4}},
            {"options": {"rank": 4, "target_modules": ["o_proj", "gate_proj", "up_proj", "down_proj"]}}],
  "options": [
    {"name": "rank", "type": "integer", "default": 8, "min": 1, "max": 4096, "doc": "rank of the update"},
    {"name": "alpha", "type": "number", "default": 16, "min": 0, "max": 65536, "doc": "the update is scaled by alpha / rank"},
    {"name": "dropout", "type": "number", "default": 0, "min": 0, "max": 0.99, "doc": "dropout probability of the update's input"},
    {"name": "target_modules", "type": "list", "default": ["q_proj", "v_proj"],
     "doc": "names of the linear layers: q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj, lm_head"}
  ]
})json");
