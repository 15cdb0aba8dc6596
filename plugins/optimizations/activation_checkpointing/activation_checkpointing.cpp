// Activation checkpointing (arXiv:1604.06174): blocks keep fewer tensors for the backward, and recompute
// or fetch the others. It pays if memory limits the batch. Otherwise it only costs time.
//   full          a block keeps only its input and runs its forward again. Memory: one input per block,
//                 and one whole block. Time: one more forward.
//   every         the same for block 0, n, 2n, ...
//   selective     outputs of the slots in `keep` stay, the others are recomputed (arXiv:2205.05198). With
//                 attention and linear kept, only cheap elementwise operators run again.
//   budget        keeps the outputs with the most FLOPs per byte (the idea: arXiv:2206.14148)
//   offload       saved tensors wait in host memory. It pays if the bus moves them while a GPU computes.
//                 On a CPU it only costs time.
//   quantize      saved tensors are kept in 8 bits (arXiv:2104.14129): a quarter of fp32, half of bf16, for
//                 one pass to encode and one to decode. The backward reads rounded activations.
// Gradients under every other policy are bit-equal to the plain ones.
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "budget.h"
#include "offload.h"
#include "optrush/plugin.h"
#include "quantize.h"
#include "recompute.h"
#include "selective.h"

namespace {
using namespace optrush;
using namespace optrush::checkpointing;

class ActivationCheckpointing final : public Plugin {
 public:
  void apply(Recipe& recipe, const Options& options) override {
    const std::string policy = options.string("policy");
    check_used(options, policy);
    recipe.on(Event::ready, Phase::checkpoint, [this](Run& run) {
      run_ = &run;
      for (const auto& chunk : run.chunks())
        for (const Unit* unit : chunk)
          if (unit->role == UnitRole::block) layers_.push_back(unit->layer);
      std::ranges::sort(layers_);
    });
    if (policy == "full") recompute(recipe, 1);
    if (policy == "every") recompute(recipe, options.integer("every"));
    if (policy == "selective") select(recipe, options.list("keep"));
    if (policy == "budget") choose(recipe, options.number("budget"));
    if (policy == "offload") offload(recipe);
    if (policy == "quantize") quantize(recipe);
  }

 private:
  using Call = std::function<Tensor(const std::shared_ptr<const UnitFunction>& inner, const Tensor& x,
                                    const Batch&, const Unit&)>;

  /// Refuses options of other policies, because they would be ignored.
  static void check_used(const Options& options, const std::string& policy) {
    const auto only = [&](const char* option, const char* user, bool is_default) {
      if (policy != user && !is_default)
        throw Error(ErrorCode::conflict,
                    "option '" + std::string(option) + "' has no effect with policy = \"" + policy + "\"",
                    "use policy = \"" + std::string(user) + "\", or leave it out");
    };
    only("every", "every", options.integer("every") == 2);
    only("keep", "selective", options.list("keep") == std::vector<std::string>{"attention", "linear"});
    only("budget", "budget", options.number("budget") == 0.5);
  }

  /// Calls every block through `call` if gradients are enabled.
  static void wrap_blocks(Recipe& recipe, Phase phase, bool gives_way_to_a_compiler, Call call) {
    recipe.unit.wrap(phase, [=, &recipe](UnitFunction inner, const Unit& unit) -> UnitFunction {
      if (unit.role != UnitRole::block || (gives_way_to_a_compiler && compiled(recipe))) return inner;
      return [call, &unit, inner = std::make_shared<const UnitFunction>(std::move(inner))](
                 const Tensor& x, const Batch& batch) {
        return at::GradMode::is_enabled() ? call(inner, x, batch, unit) : (*inner)(x, batch);
      };
    });
  }

  void recompute(Recipe& recipe, int64_t every) {
    wrap_blocks(recipe, Phase::checkpoint, false,
                [this, every, &scopes = recipe.scopes()](const auto& inner, const Tensor& x,
                                                         const Batch& batch, const Unit& unit) {
                  return unit.layer % every == 0 ? recompute_(inner, x, batch, scopes) : (*inner)(x, batch);
                });
  }

  void select(Recipe& recipe, const std::vector<std::string>& slots) {
    recipe.keep_activations({.policy = ActivationPolicy::Kind::selective, .keep = slots});
    operators_.watch(recipe);
    const Keep keep = [slots](const std::string& slot, int64_t) {
      return std::find(slots.begin(), slots.end(), slot) != slots.end();
    };
    wrap_blocks(recipe, Phase::checkpoint, true,
                [this, keep, &scopes = recipe.scopes()](const auto& inner, const Tensor& x,
                                                        const Batch& batch, const Unit& unit) {
                  return select_in(inner, x, batch, unit, scopes, keep);
                });
  }

  void choose(Recipe& recipe, double budget) {
    recipe.keep_activations({.policy = ActivationPolicy::Kind::budget, .budget = budget});
    operators_.watch(recipe);
    wrap_blocks(recipe, Phase::checkpoint, true,
                [this, budget, &scopes = recipe.scopes()](const auto& inner, const Tensor& x,
                                                          const Batch& batch, const Unit& unit) {
                  if (!plan_) plan_ = make_plan(budget, *inner, x, batch, unit);
                  const auto place = std::ranges::find(layers_, unit.layer) - layers_.begin();
                  const BlockChoice& choice = plan_->blocks.at(static_cast<size_t>(place));
                  if (choice.plain) return (*inner)(x, batch);
                  return select_in(inner, x, batch, unit, scopes, [&](const std::string&, int64_t number) {
                    return choice.kept.contains(number);
                  });
                });
  }

  void offload(Recipe& recipe) {
    recipe.counter({.name = "moved to the host", .unit = "bytes", .per = Per::step},
                   [this] { return static_cast<double>(offload_.moved()); });
    recipe.on(Event::step_end, Phase::offload, [this](Run& run) {
      if (std::exchange(told_, true)) return;
      run.note("offload moves " + std::to_string(offload_.moved()) + " bytes to host memory per step" +
               (form_of(run.device()) == at::kCPU ? "; on a CPU, this is the same memory" : ""));
    });
    wrap_blocks(
        recipe, Phase::offload, false,
        [this](const auto& inner, const Tensor& x, const Batch& batch, const Unit& unit) {
          // The backward would need the last block's tensors at once.
          if (unit.layer == layers_.back()) return (*inner)(x, batch);
          offload_.begin_block();
          const SavedTensorScope scope([this](const Tensor& tensor) { return offload_.pack(tensor); });
          return (*inner)(x, batch);
        });
  }

  void quantize(Recipe& recipe) {
    wrap_blocks(recipe, Phase::offload, false,
                [this](const auto& inner, const Tensor& x, const Batch& batch, const Unit&) {
                  const SavedTensorScope scope([this, numbers = x.numel()](const Tensor& tensor) {
                    return quantize_.pack(tensor, numbers);
                  });
                  return (*inner)(x, batch);
                });
  }

  Tensor select_in(const std::shared_ptr<const UnitFunction>& inner, const Tensor& x, const Batch& batch,
                   const Unit& unit, const Scopes& scopes, const Keep& keep) {
    return std::make_shared<SelectiveCall>(inner, x, batch, scopes, operators_.block(unit.layer))
        ->run(x, keep);
  }

  /// Blocks are alike, so the first one represents all.
  BudgetPlan make_plan(double budget, const UnitFunction& inner, const Tensor& x, const Batch& batch,
                       const Unit& unit) {
    Tensors resident;
    for (const Param* param : unit.params())
      if (param->leaf.defined()) {
        resident.push_back(param->leaf);
        resident.push_back(param->compute_value());
      }
    const auto blocks = std::ssize(layers_);
    BlockCost cost = cost_of(inner, x, batch, resident, operators_.block(unit.layer));
    if (!is_forecast(x)) agree_on(cost, run_->mesh());
    BudgetPlan plan = spend(budget, cost, blocks);
    size_t operators = 0, plain = 0;
    for (const auto& block : plan.blocks) {
      operators += block.plain ? cost.operators.size() : block.kept.size();
      plain += block.plain ? 1 : 0;
    }
    run_->note("within the budget, blocks keep " + std::to_string(plan.bytes) + " of " +
               std::to_string(cost.plain * blocks) + " bytes: the outputs of " + std::to_string(operators) +
               " of " + std::to_string(cost.operators.size() * plan.blocks.size()) + " operators; " +
               std::to_string(plain) + " of " + std::to_string(blocks) + " blocks keep everything");
    return plan;
  }

  Run* run_ = nullptr;
  std::vector<int64_t> layers_;  ///< of the blocks that this rank runs
  Recompute recompute_;
  Operators operators_;
  std::optional<BudgetPlan> plan_;
  Offload offload_;
  bool told_ = false;  ///< the moved bytes were reported
  Quantize quantize_;
};
}  // namespace

OPTRUSH_PLUGIN(ActivationCheckpointing, R"json({
  "name": "activation_checkpointing", "version": "0.2.0", "kind": "optimization", "effect": "exact",
  "summary": "blocks save fewer activations for the backward, and recompute or reload them, or save them in 8 bits",
  "check": [{}, {"options": {"policy": "every"}}, {"options": {"policy": "selective"}}, {"options": {"policy": "budget"}},
            {"options": {"policy": "offload"}}, {"options": {"policy": "quantize"}}],
  "options": [
    {"name": "policy", "type": "string", "default": "full",
     "choices": ["full", "every", "selective", "budget", "offload", "quantize"], "effects": {"quantize": "precision"},
     "doc": "full: recompute every block; every: recompute every n-th block ('every'); selective: save only the outputs of 'keep'; budget: choose by 'budget'; offload: move activations to host memory; quantize: keep them in 8 bits"},
    {"name": "every", "type": "integer", "default": 2, "min": 2, "max": 1024, "doc": "policy every: block 0, n, 2n, ..."},
    {"name": "keep", "type": "list", "default": ["attention", "linear"],
     "choices": ["attention", "linear", "norm", "add_norm", "position", "convolution", "delta_rule", "swiglu"],
     "doc": "policy selective: slots whose outputs are saved"},
    {"name": "budget", "type": "number", "default": 0.5, "min": 0, "max": 1e15,
     "doc": "policy budget: memory for saved activations; up to 1: fraction of the usage without recomputation; above 1: bytes per micro-batch"}
  ]
})json");
