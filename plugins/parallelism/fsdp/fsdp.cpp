// Fully sharded data parallelism: ZeRO (arXiv:1910.02054) in the form of PyTorch FSDP (arXiv:2304.11277).
// N ranks train on different sequences, and each keeps 1/N of the optimizer's state. With Ψ the bytes of
// the parameters, a step of k micro-batches sends, times (N - 1) / N:
//   stage 1    parameters are whole during the step, gradients are summed at its end              2Ψ
//   stage 2    gradients are summed after each micro-batch, and only this rank's piece stays      (k + 1)Ψ
//   stage 3    parameters are gathered around each unit, in forward and backward, and then freed  3kΨ
//              with reshard_after_forward = false they stay from forward to backward              2kΨ
// A unit is the embedding, a block or the head. Its parameters lie one after the other in flat tensors,
// and each rank keeps an equal piece of each. While a unit computes, the parameters of the next one are
// gathered. shard_ranks = n shards over n ranks that are close together; the other ranks hold copies
// (hybrid sharding).
//
// It pays if a model or its optimizer does not fit on one device. If it fits, replicas (ddp) send less: stage
// 3 moves 1.5 times as much for each micro-batch. A rank waits if a unit computes faster than the next
// parameters arrive: with small micro-batches or slow links. Matrices that mixed_precision multiplies in bf16
// are gathered in bf16. parameter_type = "bf16" gathers every parameter in bf16, which is the arithmetic of
// bf16 weights.
#include "host_piece.h"
#include "optrush/plugin.h"
#include "sharded.h"

namespace {
using namespace optrush;
using namespace optrush::fsdp;

constexpr const char* kShardDim = "fsdp";

Policy policy_of(const Options& options) {
  Policy policy{.stage = options.integer("stage"),
                .reshard_after_forward = options.boolean("reshard_after_forward"),
                .prefetch = options.integer("prefetch"),
                .limit = options.integer("limit"),
                .parameter_type = options.string("parameter_type"),
                .reduce_type = options.string("reduce_type"),
                .shard_ranks = options.integer("shard_ranks"),
                .offload = options.boolean("offload")};
  if (policy.stage != 3 && !policy.reshard_after_forward)
    throw Error("option 'reshard_after_forward' has no effect at stage " + std::to_string(policy.stage) +
                    ": parameters stay whole during the step",
                "use stage = 3, or leave it out");
  return policy;
}

class Fsdp final : public Plugin {
 public:
  void apply(Recipe& recipe, const Options& options) override {
    const Policy policy = policy_of(options);
    if (policy.shard_ranks > 0)
      recipe.mesh.dim(
          {.name = kShardDim, .size = policy.shard_ranks, .splits = Splits::batch, .nearness = 30});
    recipe.data_parallel.replace(
        [this, policy](Run& run) {
          const auto dims = policy.shard_ranks > 0 ? Mesh::Names{kShardDim} : run.mesh().data();
          auto made = std::make_unique<Sharded>(run, policy, dims);
          sharded_ = made.get();
          return made;
        },
        {.trace = Trace::opaque, .predictable = true});
    recipe.unit.wrap(
        Phase::shard,
        [this](UnitFunction inner, const Unit& unit) { return sharded_->wrap(std::move(inner), unit); },
        {.trace = Trace::opaque, .predictable = true});
    // Every rank gathers the same.
    recipe.counter({.name = "gathers", .per = Per::step, .over_ranks = OverRanks::max},
                   [this] { return static_cast<double>(sharded_->gathered_groups()); });
    recipe.counter({.name = "gathered", .unit = "bytes", .per = Per::step, .over_ranks = OverRanks::max},
                   [this] { return sharded_->gathered_bytes(); });
    recipe.on(Event::ready, Phase::shard, [this, policy](Run& run) {
      sharded_->expect_traffic(run);
      if (policy.offload && is_forecast(run.device())) {
        constexpr double kBytesPerParameter = 16;  // value, gradient, two moments
        double trained = 0;
        for (const Shard& shard : sharded_->shards())
          for (const Segment& segment : shard.segments)
            trained += static_cast<double>(segment.layout.numel());
        refuse_large_forecast(kBytesPerParameter * trained);
      }
      if (policy.offload && run.device().is_cpu())
        run.note("offload has no effect on a CPU: shards are in host memory already");
    });
  }

 private:
  Sharded* sharded_ = nullptr;
};
}  // namespace

OPTRUSH_PLUGIN(Fsdp, R"json({
  "name": "fsdp", "version": "0.1.0", "kind": "parallelism", "effect": "rounding",
  "summary": "parameters, gradients and optimizer state sharded over the ranks (ZeRO 1, 2, 3)",
  "conflicts": ["cuda_graphs"],
  "check": [{}, {"options": {"stage": 1}}, {"options": {"stage": 2}}, {"options": {"reshard_after_forward": false, "prefetch": 0}}],
  "options": [
    {"name": "stage", "type": "integer", "default": 3, "min": 1, "max": 3,
     "doc": "1: shard the optimizer state; 2: also the gradients; 3: also the parameters"},
    {"name": "reshard_after_forward", "type": "boolean", "default": true,
     "doc": "stage 3: free a unit's parameters after its forward, and gather them again for its backward"},
    {"name": "prefetch", "type": "integer", "default": 1, "min": 0, "max": 64,
     "doc": "number of units to gather ahead; 0: each unit waits for its parameters"},
    {"name": "limit", "type": "integer", "default": 2, "min": 1, "max": 64,
     "doc": "maximum number of gathers, and of gradient reductions, in flight; a unit has one per flat tensor"},
    {"name": "parameter_type", "type": "string", "default": "model", "choices": ["model", "bf16"], "effects": {"bf16": "precision"},
     "doc": "type of gathered parameters; model: their own type, and for matrices the compute type"},
    {"name": "reduce_type", "type": "string", "default": "model", "choices": ["model", "fp32", "bf16"], "effects": {"bf16": "precision"},
     "doc": "type of gradient reductions; model: the type of the parameters that the optimizer updates"},
    {"name": "shard_ranks", "type": "integer", "default": 0, "min": 0, "max": 65536,
     "doc": "hybrid sharding: shard over this number of neighbouring ranks, and replicate over the others; 0: shard over all"},
    {"name": "offload", "type": "boolean", "default": false,
     "doc": "keep shards in host memory, and run the optimizer on the CPU"}
  ]
})json");
