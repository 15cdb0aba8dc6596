// The optimizer in the backward (LOMO, arXiv:2306.09782, section 3.1, for any optimizer that takes parameters
// one by one): each parameter is updated as soon as its gradient is final, and the gradient is freed. So not
// all gradients exist at once: at most the largest one on one device, and the shards of the units in flight
// under fsdp.
//
// It saves the bytes of the gradients if the peak of a step is in the backward or the update, as in full
// fine-tuning with small batches: 4 bytes a parameter in fp32. It saves nothing if micro-batches accumulate,
// because their sum needs all gradients, or under ddp, which keeps its buckets. It costs launches: the
// optimizer is called once for each parameter. It excludes plugins that need all gradients before the update:
// clipping by the global norm, the loss scale of fp16.
#include "optrush/advanced/data_parallel.h"
#include "optrush/plugin.h"

namespace {
using namespace optrush;

class InBackward final : public Optimizer {
 public:
  InBackward(Run& run, std::unique_ptr<Optimizer> inner) : inner_(std::move(inner)) {
    if (const std::string why = inner_->why_not_in_parts(); !why.empty())
      throw Error(ErrorCode::conflict,
                  "'optimizer_in_backward' updates each parameter separately, but " + why,
                  "remove one of the two from the stack");
    run.data_parallel().on_ready([this, &run](Shard& shard) {
      const Update* update = run.update();
      if (update == nullptr) return;
      inner_->step({&shard, 1}, *update);
      Gradients::release(shard);
    });
  }

  /// Every shard with a gradient was updated in the backward.
  void step(std::span<Shard>, const Update&) override {}
  std::vector<OptimizerState> state(const Shard& shard) override { return inner_->state(shard); }
  void evaluates(std::span<Shard> shards, bool does) override { inner_->evaluates(shards, does); }

 private:
  std::unique_ptr<Optimizer> inner_;
};

/// Refuses edits that need all gradients; wraps at Phase::measure only read them.
void refuse_edits_of_gradients(const Recipe& recipe) {
  std::vector<Edit> edits = recipe.gradients.wraps();
  edits.push_back(recipe.gradients.base());
  for (const Edit& edit : edits)
    if (edit.phase != Phase::measure && edit.plugin != "plain")
      throw Error(
          ErrorCode::conflict,
          "optimizer_in_backward uses each gradient before the others are computed, but '" + edit.plugin +
              "' needs all of them",
          "remove one of the two from the stack (mixed_precision: in bf16, which needs no loss scale)");
}

class OptimizerInBackward final : public Plugin {
 public:
  void apply(Recipe& recipe, const Options&) override {
    recipe.on(Event::meta_initialized, Phase::optimizer, [&recipe](Run& run) {
      refuse_edits_of_gradients(recipe);
      const int64_t micro_batches = run.spec().train.accumulation;
      if (micro_batches > 1)
        run.note("optimizer_in_backward: the gradients of " + std::to_string(micro_batches) +
                 " micro-batches are accumulated before any is final, so all of them are kept");
    });
    recipe.optimizer.wrap(Phase::optimizer, [](auto inner) {
      return [inner](Run& run, std::span<Shard> shards) {
        return std::make_unique<InBackward>(run, inner(run, shards));
      };
    });
  }
};
}  // namespace

OPTRUSH_PLUGIN(OptimizerInBackward, R"json({
  "name": "optimizer_in_backward", "version": "0.1.0", "kind": "optimization", "effect": "exact",
  "summary": "each parameter is updated in the backward as soon as its gradient is final; the gradient is then freed",
  "doc": "Saves the memory of the gradients if a step has one micro-batch.",
  "conflicts": ["clip_grad_norm", "cuda_graphs"],
  "options": []
})json");
