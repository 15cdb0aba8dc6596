// Pipeline parallelism: ranks have different layers of one model. A step's micro-batches pass through
// them one after the other, activations forwards and gradients back. All ranks work at the same time
// except for the bubble at a step's begin and end. Parameters, gradients and optimizer state shrink by
// the number of ranks. Each boundary sends one activation (B, S, D) and one gradient of this size for each
// micro-batch, which is the least of all strategies.
//
// With p ranks and m micro-batches (train.accumulation) a rank waits for (p - 1) / (m + p - 1) of the time:
//   gpipe (arXiv:1811.06965) keeps the activations of all m micro-batches;
//   1f1b (arXiv:2104.04473) waits as long, and keeps the activations of at most p micro-batches;
//   interleaved (the same paper), with v chunks a rank, waits for (p - 1) / (m v + p - 1), and sends v times
//   as often; it needs a multiple of p micro-batches;
//   zero_bubble (ZB-H1, arXiv:2401.10241) splits the backward of linears into the gradient of the input,
//   which other stages wait for, and the gradient of the weight, which fills waits: about a third of the
//   bubble, with the memory of 1f1b.
//
// It pays across slow links, and if a model does not fit on one device. It does not pay with few
// micro-batches. A stage that takes longer than the others makes all of them wait, so units are cut by FLOPs
// and bytes, or by the option `blocks`.
#include <ATen/Context.h>

#include <map>
#include <memory>
#include <optional>
#include <set>

#include "optrush/plugin.h"
#include "partition.h"
#include "pipeline.h"
#include "tied_ends.h"
#include "timeline.h"

namespace {
using namespace optrush;
using namespace optrush::pipeline_parallel;

constexpr const char* kDim = "pp";

std::string text(int64_t number) { return std::to_string(number); }

Schedule schedule_of(const std::string& name) {
  if (name == "gpipe") return Schedule::gpipe;
  if (name == "interleaved") return Schedule::interleaved;
  return name == "zero_bubble" ? Schedule::zero_bubble : Schedule::one_f_one_b;
}

class PipelineParallel final : public Plugin {
 public:
  void apply(Recipe& recipe, const Options& options) override {
    shape_ = {.schedule = schedule_of(options.string("schedule")),
              .ranks = options.integer("size"),
              .chunks = options.integer("chunks")};
    blocks_ = options.string("blocks");
    if (shape_.ranks == 1 || recipe.spec().train.world_size == 1) return;
    const RunSpec& spec = recipe.spec();
    if (spec.model_kind != "llama" && spec.model.value("op", "") != "mlp")
      throw Error("pipeline_parallel does not support a model of kind '" + spec.model_kind + "'",
                  "use rush.llama, rush.checkpoint or the operator mlp");
    if (spec.model_kind == "llama" && llama_of(spec).carries())
      throw Error(
          "pipeline_parallel does not support per_layer_input_dim and kv_shared_layers: its messages have "
          "one size, but layers of this model pass streams of different widths to the next one",
          "use fsdp, which shards the parameters of any model");
    if (shape_.schedule != Schedule::interleaved) {
      if (shape_.chunks > 2)
        throw Error(
            "pipeline_parallel: " + text(shape_.chunks) + " chunks per rank need schedule = \"interleaved\"",
            "leave out chunks, or set schedule = \"interleaved\"");
      shape_.chunks = 1;
    }
    recipe.mesh.dim({.name = kDim, .size = shape_.ranks, .splits = Splits::layers, .nearness = 10});
    recipe.stages.replace([this](Run& run) { return stages(run); },
                          {.trace = Trace::opaque, .predictable = true});
    recipe.data_parallel.wrap(Phase::pipeline,
                              [this](auto inner) {
                                return [this, inner = std::move(inner)](Run& run) {
                                  return with_tied_ends(inner(run), tied_, run);
                                };
                              },
                              {.trace = Trace::opaque, .predictable = true});
    recipe.schedule.replace([this](Step& step) { pipeline_->step(step); },
                            {.trace = Trace::opaque, .predictable = true});
    if (shape_.schedule == Schedule::zero_bubble) split_backward_of_linears(recipe);
    recipe.on(Event::ready, Phase::pipeline,
              [this](Run& run) { pipeline_.emplace(run, shape_, late_.get()); });
    count_bubble(recipe);
  }

 private:
  void split_backward_of_linears(Recipe& recipe) {
    late_ = std::make_unique<DeferredWeights>();
    recipe.data_parallel.demand(feature::deferred_weight_gradients);
    recipe.ops.linear.replace_each([this](const Module& module) { return late_->linear(module); },
                                   {.trace = Trace::opaque, .offers = {feature::fp64}, .predictable = true});
  }

  std::vector<std::vector<Unit*>> stages(Run& run) {
    shape_.micros = run.spec().train.accumulation;
    if (shape_.schedule == Schedule::interleaved && shape_.micros % shape_.ranks != 0)
      throw Error("pipeline_parallel: an interleaved schedule of " + text(shape_.ranks) +
                      " ranks does not support " + text(shape_.micros) + " micro-batches",
                  "use a train.accumulation that is a multiple of " + text(shape_.ranks) +
                      ", or schedule = \"1f1b\"");
    const auto& units = run.units();
    const auto counts =
        units_of_stages(units, run.spec(), shape_.stages(), blocks_, form_of(run.device()) == at::kCUDA);
    const int64_t rank = run.mesh().rank(kDim);
    std::vector<std::vector<Unit*>> chunks(static_cast<size_t>(shape_.chunks));
    std::map<const Param*, std::set<int64_t>> users;
    size_t next = 0;
    std::string cut;
    for (int64_t stage = 0; stage < shape_.stages(); ++stage) {
      const int64_t count = counts.at(static_cast<size_t>(stage));
      cut += (stage == 0 ? "" : ", ") + text(count);
      for (int64_t i = 0; i < count; ++i, ++next) {
        Unit* unit = units.at(next).get();
        for (const Param* param : unit->params()) users[param].insert(stage);
        if (stage % shape_.ranks == rank)
          chunks.at(static_cast<size_t>(stage / shape_.ranks)).push_back(unit);
      }
    }
    for (Param* param : run.params().all()) place(*param, users[param], rank);
    run.note("the stages of the pipeline have " + cut + " units (embedding, blocks, head)");
    return chunks;
  }

  /// Each rank has different parameters, except for a tied one, which both ends have.
  void place(Param& param, const std::set<int64_t>& stages, int64_t rank) {
    param.sharded_over.emplace_back(kDim);
    param.absent_over.emplace_back(kDim);
    if (stages.size() < 2) return;
    const int64_t first = *stages.begin() % shape_.ranks, last = *stages.rbegin() % shape_.ranks;
    if (stages.size() > 2)
      throw Error("pipeline_parallel: " + text(std::ssize(stages)) + " stages use '" + param.name + "'",
                  "at most two stages may share a parameter");
    if (first == last) return;
    tied_.push_back({&param, first, last});
    param.counted = rank != last;
  }

  void count_bubble(Recipe& recipe) {
    // The host does not wait for a GPU, so it cannot time the bubble. There the bubble is part of the exposed
    // communication in the report.
    if (recipe.spec().device == "cpu" || !at::hasCUDA())
      recipe.counter({.name = "pipeline bubble", .unit = "%", .over_ranks = OverRanks::mean},
                     [this] { return pipeline_->bubble_percent(); });
    recipe.counter({.name = "bubble in theory", .unit = "%", .over_ranks = OverRanks::mean},
                   [this] { return 100 * Timeline(shape_).bubble(); });
  }

  Shape shape_;
  std::string blocks_;
  std::vector<TiedParam> tied_;
  std::unique_ptr<DeferredWeights> late_;  ///< null except for zero-bubble schedules
  std::optional<Pipeline> pipeline_;
};
}  // namespace

OPTRUSH_PLUGIN(PipelineParallel, R"json({
  "name": "pipeline_parallel", "version": "0.1.0", "kind": "parallelism", "effect": "rounding",
  "summary": "each rank has different layers; micro-batches pass through them, so that all ranks work at the same time",
  "doc": "With train.world_size = 1 it changes nothing. With more ranks, `size` of them form a pipeline. Its micro-batches are those of gradient_accumulation.",
  "conflicts": ["cuda_graphs"],
  "options": [
    {"name": "size", "type": "integer", "default": 2, "min": 1, "max": 65536, "doc": "number of ranks in a pipeline"},
    {"name": "schedule", "type": "string", "default": "1f1b", "choices": ["gpipe", "1f1b", "interleaved", "zero_bubble"], "doc": "order of forwards and backwards on a rank"},
    {"name": "chunks", "type": "integer", "default": 2, "min": 1, "max": 1024, "doc": "parts of the model on each rank, for the interleaved schedule"},
    {"name": "blocks", "type": "string", "default": "", "doc": "number of blocks of each stage, for example \"3,5\"; empty: balance the time of the stages"}
  ]
})json");
