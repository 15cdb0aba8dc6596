// Two losses that keep the router of a mixture of experts usable. The load-balancing loss (arXiv:2101.03961,
// equations 4 to 6) is smallest if all experts get equally many tokens. Without it a router learns to send
// all tokens to a few experts. The z loss (arXiv:2202.08906) keeps its logits small. Both are means over the
// layers and the tokens of a micro-batch. Prompts without a loss are tokens, as in transformers; padding is
// not. A micro-batch weighs as many times as it has tokens. They are added as gradients of the logits, so
// they reach every layer in its own backward, under recomputation and in a pipeline. The reported loss is
// without them.
//
// It pays in long trainings of a mixture. It costs a softmax and a few small operators per layer.
#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include "balance.h"
#include "optrush/plugin.h"

namespace {
using namespace optrush;
using namespace optrush::router_losses;

class RouterLosses final : public Plugin {
 public:
  void apply(Recipe& recipe, const Options& options) override {
    coefficients_ = {options.number("balance"), options.number("z")};
    const RunSpec& spec = recipe.spec();
    const LlamaSpec model = spec.model_kind == "llama" ? llama_of(spec) : LlamaSpec{};
    for (int64_t layer = 0; layer < model.n_layers; ++layer) layers_ += model.has_experts(layer) ? 1 : 0;
    if (layers_ == 0)
      throw Error("router_losses does not apply: this model has no mixture of experts",
                  "use a model with n_experts, or remove the rung");
    const Router& router = model.router;
    if (router.scores != RouterScores::softmax || router.bias == RouterBias::choice || router.groups > 1)
      throw Error("router_losses supports routers that choose the largest shares of a softmax only",
                  "remove the rung: this model's router has other scores, a bias of the choice, or groups");
    per_token_ = model.experts_per_token;
    recipe.loss_gradient.wrap(Phase::gradients, [this](auto inner) { return root_ = inner; },
                              {.trace = Trace::aten, .capturable = true, .predictable = true});
    recipe.unit.wrap(Phase::base,
                     [this](UnitFunction inner, const Unit& unit) -> UnitFunction {
                       if (unit.role != UnitRole::experts) return inner;
                       return [this, inner = std::move(inner)](const Tensor& x, const Batch& batch) {
                         weight_ = static_cast<double>(batch.filled_positions()) / batch.filled_count;
                         return inner(x, batch);
                       };
                     },
                     {.trace = Trace::opaque, .predictable = true});
    recipe.ops.router.wrap(
        Phase::base,
        [this, &mesh = recipe.mesh](Ops::Router::Fn inner, const Module& module) -> Ops::Router::Fn {
          const double ranks = adding_up(*module.params.at(0), mesh);
          return [this, ranks, inner = std::move(inner)](const Tensor& x) { return watch(inner(x), ranks); };
        },
        {.trace = Trace::opaque, .predictable = true});
    count(recipe);
  }

 private:
  /// The number of ranks with the same tokens that sum their gradients of the logits. Each adds a share.
  static double adding_up(const Param& router, const Mesh& mesh) {
    return static_cast<double>(mesh.size(router.partial_over));
  }

  Tensor watch(Tensor logits, double ranks) {
    const bool trains = at::GradMode::is_enabled() && logits.requires_grad();
    if (!trains || logits.size(0) == 0) return logits;
    add(logits);
    const Tensor wide = logits.detach().to(wide_type(logits));
    logits.register_hook(
        [this, wide, weight = weight_ / static_cast<double>(layers_) / ranks](const Tensor& gradient) {
          const at::NoGradGuard no_grad;
          const Tensor root = root_(at::zeros({}, wide.options())).to(wide.scalar_type());
          const Tensor own = gradient_of(wide, per_token_, coefficients_) * (root * weight);
          return gradient + own.to(gradient.scalar_type());
        });
    return logits;
  }

  static at::ScalarType wide_type(const Tensor& x) {
    return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  }

  /// Sums on the device, by the weight of the micro-batch; the host reads them after the run.
  void add(const Tensor& logits) {
    const at::NoGradGuard no_grad;
    const Losses losses = losses_of(logits.detach().to(wide_type(logits)), per_token_);
    const Tensor one = at::ones_like(losses.z);
    const Tensor all = at::stack({losses.balance, losses.z, losses.busiest, one}).to(at::kDouble) * weight_;
    sums_ = sums_.defined() && sums_.device() == all.device() ? sums_ + all : all;
  }

  void count(Recipe& recipe) {
    const char* names[] = {"balance loss", "z loss", "busiest expert"};
    for (int64_t i = 0; i < 3; ++i)
      recipe.counter({.name = names[i], .over_ranks = OverRanks::mean},
                     [this, i, &mesh = recipe.mesh] { return mean_over_ranks(mesh, i); });
  }

  /// Of all layers and tokens: ranks may have different layers and different numbers of tokens.
  double mean_over_ranks(const Mesh& mesh, int64_t which) const {
    const Tensor all = sums_.defined() ? sums_.cpu().clone() : at::zeros({4}, at::kDouble);
    mesh.group(mesh.all()).all_reduce(all).wait();
    const auto weight = all[3].item<double>();
    return weight == 0 ? 0 : all[which].item<double>() / weight;
  }

  Coefficients coefficients_;
  int64_t layers_ = 0, per_token_ = 1;
  double weight_ = 1;  ///< this micro-batch's share of the step's tokens
  std::function<Tensor(const Tensor&)> root_;
  Tensor sums_;  ///< of the two losses, the busiest expert and 1
};
}  // namespace

OPTRUSH_PLUGIN(RouterLosses, R"json({
  "name": "router_losses", "version": "0.1.0", "kind": "optimization", "effect": "model", "per_micro_batch": true,
  "summary": "load-balancing loss and z loss of the routers of mixtures of experts",
  "conflicts": ["context_parallel"],
  "check": [{"options": {"balance": 0.05, "z": 0.01}, "model": "experts", "gradient": false}],
  "options": [
    {"name": "balance", "type": "number", "default": 0.01, "min": 0, "max": 100, "doc": "coefficient of the load-balancing loss"},
    {"name": "z", "type": "number", "default": 0, "min": 0, "max": 100, "doc": "coefficient of the z loss"}
  ]
})json");
