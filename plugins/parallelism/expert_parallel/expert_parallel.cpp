// Expert parallelism (GShard, arXiv:2006.16668; DeepSpeed-MoE, arXiv:2201.05596): ranks train on different
// sequences. Each rank has some whole experts of every mixture, with their gradients and optimizer state. An
// all-to-all of unequal parts sends each token to the ranks that have its experts, and another one sends it
// back. No token is dropped. Everything else is the same on all of these ranks, and a plugin for data
// parallelism sums its gradients over them. Gradients of an expert are summed over the ranks that have it.
//
// With R ranks a mixture sends (R - 1) / R of the rows of its experts (tokens times experts per token)
// four times per step: to the experts and back, in the forward and the backward. Replicas send 2 (R - 1) /
// R times the gradients of all experts once per step. So expert parallelism sends less if the rows of a rank
// in a step are fewer than half the parameters of the experts divided by the model's width. A rank keeps 1 /
// R of these parameters.
//
// The shared expert of a mixture is computed, forward and backward, while rows are in transit.
//
// It pays if the experts do not fit on one device, or if summing their gradients takes long. It does not pay
// if routers send most tokens to the experts of one rank, because the others wait for it. A loss that
// balances the load helps.
#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "expert_exchange.h"
#include "optrush/plugin.h"
#include "shared_experts.h"

namespace {
using namespace optrush;
using namespace optrush::expert_parallel;

constexpr const char* kDim = "ep";

std::string text(int64_t number) { return std::to_string(number); }

class ExpertParallel final : public Plugin {
 public:
  void apply(Recipe& recipe, const Options& options) override {
    const RunSpec& spec = recipe.spec();
    size_ = options.integer("size");
    const LlamaSpec model = spec.model_kind == "llama" ? llama_of(spec) : LlamaSpec{};
    if (model.n_experts == 0)
      throw Error("expert_parallel does not apply: this model has no mixture of experts",
                  "use a model with n_experts, or remove the rung");
    if (size_ == 1 || spec.train.world_size == 1) return;
    if (model.n_experts % size_ != 0)
      throw Error("expert_parallel: " + text(model.n_experts) + " experts cannot be divided among " +
                      text(size_) + " ranks",
                  "use a size that divides the number of experts");
    per_token_ = model.experts_per_token;
    recipe.mesh.dim({.name = kDim, .size = size_, .splits = Splits::batch, .nearness = 35});
    recipe.on(Event::mesh_initialized, Phase::tensor,
              [this](Run& run) { exchange_ = std::make_unique<ExpertExchange>(run.mesh().group({kDim})); });
    // After the adapters, whose parameters move with their expert.
    recipe.on(Event::meta_initialized, Phase::tensor, [this](Run& run) {
      for (const auto& unit : run.units()) keep_own(*unit, run.mesh().rank(kDim));
    });
    recipe.ops.experts.wrap(Phase::tensor,
                            [this](Ops::Experts::Fn inner, const Module& module) -> Ops::Experts::Fn {
                              return [this, layer = module.layer, inner = std::move(inner)](
                                         const Tensor& rows, const Tensor& counts, const Batch& batch) {
                                return (*exchange_)(inner, rows, counts, batch,
                                                    [&] { shared_.compute(layer, batch); });
                              };
                            },
                            {.trace = Trace::opaque, .predictable = true});
    // Outside of the wraps of other plugins around a shared expert.
    recipe.unit.wrap(
        Phase::prefetch,
        [this](UnitFunction inner, const Unit& unit) { return shared_.wrapped(std::move(inner), unit); },
        {.trace = Trace::opaque, .predictable = true});
    recipe.on(Event::ready, Phase::tensor, [this, &recipe](Run& run) { expect_traffic(run, recipe); });
    count_rows(recipe);
  }

 private:
  /// Removes other ranks' experts from the mixtures. Their modules stay, as other code may refer to them.
  void keep_own(Unit& unit, int64_t rank) {
    shared_.find(unit);
    for (const auto& child : unit.children) keep_own(*child, rank);
    if (unit.role != UnitRole::experts) return;
    const int64_t own = std::ssize(unit.children) / size_;
    std::vector<std::unique_ptr<Unit>> kept;
    for (int64_t i = 0; i < std::ssize(unit.children); ++i) {
      auto& expert = unit.children[static_cast<size_t>(i)];
      (i / own == rank ? kept : elsewhere_).push_back(std::move(expert));
    }
    unit.children = std::move(kept);
    for (const auto& expert : unit.children) {
      expert->share_of_tokens *= static_cast<double>(size_);  // it gets the tokens of every rank
      for (Param* param : expert->params()) {
        param->sharded_over.emplace_back(kDim);
        param->absent_over.emplace_back(kDim);
      }
    }
  }

  /// Assumes that no position is padding, and that the routers send equally many rows to each rank. Expects
  /// nothing under recomputation, because a recomputed forward sends again.
  void expect_traffic(Run& run, const Recipe& recipe) const {
    if (recipe.activations().policy != ActivationPolicy::Kind::save) return;
    const auto mixtures = run.modules("experts");
    if (mixtures.empty()) return;
    const TrainSpec& train = run.spec().train;
    const Param& matrix = *run.modules("linear").front()->params.at(0);
    const auto width = static_cast<double>(at::elementSize(matrix.compute_dtype.value_or(matrix.dtype)));
    const LlamaSpec model = llama_of(run.spec());
    const auto tokens =
        static_cast<double>(train.micro_batch * train.seq_len / run.mesh().size(run.mesh().sequence()));
    const double rows = tokens * static_cast<double>(per_token_ * model.dim) * width;
    const double counts = static_cast<double>(model.n_experts) * sizeof(int64_t);
    const double calls = static_cast<double>(train.accumulation) * static_cast<double>(mixtures.size());
    const auto ranks = static_cast<double>(size_);
    run.expect_traffic("all_to_all", {kDim}, calls * (ranks - 1) / ranks * (4 * rows + counts));
  }

  void count_rows(Recipe& recipe) const {
    const auto rows = [this] { return exchange_->computed_rows(); };
    recipe.counter({.name = "rows of experts", .per = Per::step, .over_ranks = OverRanks::mean}, rows);
    recipe.counter({.name = "rows of the busiest rank", .per = Per::step, .over_ranks = OverRanks::max},
                   rows);
  }

  int64_t size_ = 1, per_token_ = 1;
  std::vector<std::unique_ptr<Unit>> elsewhere_;  ///< experts of other ranks
  std::unique_ptr<ExpertExchange> exchange_;
  SharedExperts shared_;
};
}  // namespace

OPTRUSH_PLUGIN(ExpertParallel, R"json({
  "name": "expert_parallel", "version": "0.1.0", "kind": "parallelism", "effect": "rounding",
  "summary": "each rank has some of the experts of every mixture; tokens go to their experts and back",
  "doc": "With train.world_size = 1 it changes nothing. With more ranks, `size` of them divide the experts. They train on different sequences, and ddp or fsdp must be stacked with it.",
  "conflicts": ["cuda_graphs"],
  "check": [{"model": "experts"}],
  "options": [
    {"name": "size", "type": "integer", "default": 2, "min": 1, "max": 65536, "doc": "number of ranks among which the experts are divided"}
  ]
})json");
