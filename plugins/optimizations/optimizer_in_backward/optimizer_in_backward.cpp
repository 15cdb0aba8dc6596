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
//
// On a GPU the updates may run on a second stream. They are limited by memory and the products of the
// backward by arithmetic, so the updates use memory bandwidth, and processors at the ends of kernels, that
// the products leave. The computing stream waits for them at the end of the step.
#include <memory>

#include "optrush/advanced/data_parallel.h"
#include "optrush/forecast.h"
#include "optrush/plugin.h"
#include "updates_beside.h"

namespace {
using namespace optrush;
using optimizer_in_backward::UpdatesBeside;

class InBackward final : public Optimizer {
 public:
  InBackward(Run& run, std::unique_ptr<Optimizer> inner, bool beside) : inner_(std::move(inner)) {
    if (const std::string why = inner_->why_not_in_parts(); !why.empty())
      throw Error(ErrorCode::conflict,
                  "'optimizer_in_backward' updates each parameter separately, but " + why,
                  "remove one of the two from the stack");
    if (beside) beside_ = std::make_unique<UpdatesBeside>(run.device());
    run.data_parallel().on_ready([this, &run](Shard& shard) {
      const Update* update = run.update();
      if (update == nullptr) return;
      update_now(shard, *update);
      Gradients::release(shard);
    });
  }

  /// Every shard with a gradient was updated in the backward. Nothing reads the parameters before this call.
  void step(std::span<Shard>, const Update&) override {
    if (beside_) beside_->wait();
  }
  std::vector<OptimizerState> state(const Shard& shard) override { return inner_->state(shard); }
  void evaluates(std::span<Shard> shards, bool does) override { inner_->evaluates(shards, does); }

 private:
  void update_now(Shard& shard, const Update& update) {
    const auto step = [&] { inner_->step({&shard, 1}, update); };
    if (beside_ && !shard.data.is_cpu())
      beside_->run(shard.grad, step);
    else
      step();
  }

  std::unique_ptr<Optimizer> inner_;
  std::unique_ptr<UpdatesBeside> beside_;  ///< null: on the computing stream
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
  void apply(Recipe& recipe, const Options& options) override {
    const bool beside = options.string("stream") == "side";
    recipe.on(Event::meta_initialized, Phase::optimizer, [&recipe](Run& run) {
      refuse_edits_of_gradients(recipe);
      const int64_t micro_batches = run.spec().train.accumulation;
      if (micro_batches > 1)
        run.note("optimizer_in_backward: the gradients of " + std::to_string(micro_batches) +
                 " micro-batches are accumulated before any is final, so all of them are kept");
    });
    recipe.on(Event::materialized, Phase::optimizer, [beside](Run& run) {
      if (beside && form_of(run.device()) == at::kCPU)
        throw Skip("optimizer_in_backward: stream = \"side\" needs a GPU; a CPU has no second stream",
                   "leave this option out on a CPU");
    });
    recipe.optimizer.wrap(Phase::optimizer, [beside](auto inner) {
      return [inner, beside](Run& run, std::span<Shard> shards) {
        return std::make_unique<InBackward>(run, inner(run, shards), beside);
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
  "check": [{}, {"options": {"stream": "side"}}],
  "options": [
    {"name": "stream", "type": "string", "default": "compute", "choices": ["compute", "side"],
     "doc": "the stream that runs updates on a GPU; compute: the stream of the backward; side: a second stream"}
  ]
})json");
