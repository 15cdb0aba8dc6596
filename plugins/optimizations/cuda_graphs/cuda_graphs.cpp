// CUDA graphs (https://pytorch.org/blog/accelerating-pytorch-with-cuda-graphs/): the whole step, with
// forwards, backwards and update, is recorded once and then launched as one graph. This saves the host's work
// for each kernel. It pays if kernels are short: with small models and batches. It does not pay if the GPU is
// busy anyway, and nothing else can use the graph's memory between steps. A function that may wait for the
// host cannot be recorded; it is refused by name before anything runs. Batches are copied into the recorded
// step's batches. The number of tokens is a constant of the graph; the learning rate is read from a tensor. A
// replayed step has no phases.
#include "capturable.h"
#include "optrush/plugin.h"
#include "step_graph.h"

namespace {
using namespace optrush;
using namespace optrush::cuda_graphs;

class CudaGraphs final : public Plugin {
 public:
  void apply(Recipe& recipe, const Options&) override {
    if (recipe.spec().validate.every > 0)
      throw Error("cuda_graphs does not support validate, which runs forwards between the recorded steps",
                  "remove cuda_graphs, or leave out validate");
    recipe.on(Event::meta_initialized, Phase::capture, [&recipe](Run& run) {
      check_capturable(recipe);
      if (!run.modules("router").empty())
        throw Error(
            "cuda_graphs does not support mixtures of experts: the host reads how many tokens each "
            "expert has",
            "remove cuda_graphs from the stack");
    });
    recipe.on(Event::ready, Phase::capture, [this](Run& run) {
      if (!run.device().is_cuda())
        throw Skip("CUDA graphs exist on NVIDIA GPUs only; this run is on the CPU",
                   "remove the rung on this machine");
      run_ = &run;
      graph_ = std::make_unique<StepGraph>(run.device());
    });
    recipe.schedule.wrap(Phase::capture,
                         [this](StepGraph::Schedule inner) -> StepGraph::Schedule {
                           return [this, inner = std::move(inner)](Step& step) { run_step(step, inner); };
                         },
                         {.predictable = false});
  }

 private:
  void run_step(Step& step, const StepGraph::Schedule& schedule) {
    // Counts the steps of this process, because a run may continue from a saved state.
    const int64_t recorded = run_->spec().train.warmup - 1, made = steps_++;
    if (made < recorded) {
      graph_->run_eagerly(step, schedule);
      return;
    }
    step.time_as_one();
    if (made > recorded) {
      graph_->replay(step);
    } else {
      graph_->record(step, schedule);
      run_->note("each step is launched as one CUDA graph");
    }
  }

  Run* run_ = nullptr;
  int64_t steps_ = 0;
  std::unique_ptr<StepGraph> graph_;
};
}  // namespace

OPTRUSH_PLUGIN(CudaGraphs, R"json({
  "name": "cuda_graphs", "version": "0.1.0", "kind": "optimization", "effect": "exact", "needs": ["cuda"],
  "summary": "the whole step recorded once, then launched as one CUDA graph",
  "conflicts": ["adafactor", "dpo", "muon", "packing", "schedule_free", "stochastic_rounding"],
  "check": [{"with": ["fused_adamw"]}],
  "options": []
})json");
