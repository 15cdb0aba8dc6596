// Context parallelism: ranks train on different positions of the same sequences. Everything but attention
// works position by position, so activations, including logits, shrink by the number of ranks. Parameters are
// whole; a plugin for data parallelism sums their gradients over these ranks as over any others.
//
// kind = "ring" (arXiv:2310.01889): keys and values circulate while each rank computes with those that it
// has. A layer sends N - 1 times a rank's keys and values in the forward, and in the backward also their
// gradients (in fp32). Only the sequence bounds the number of ranks. The transfers overlap with the
// kernel if a rank's part of the sequence is long. kind = "all_to_all" (arXiv:2309.14509): ranks exchange
// parts of the sequence for heads before attention, and back after it. It sends less, (N - 1) / N of a rank's
// q, k, v and output once each, but a rank waits for the exchange. The number of ranks must divide query and
// key/value heads.
//
// It pays if one sequence does not fit on a device even with checkpointing. For short sequences, data
// parallelism does the same work and sends nothing in the forward.
#include <algorithm>
#include <memory>
#include <optional>

#include "heads_exchange.h"
#include "optrush/plugin.h"
#include "ring.h"
#include "slices.h"

namespace {
using namespace optrush;
using namespace optrush::context_parallel;

constexpr const char* kDim = "cp";

std::string text(int64_t number) { return std::to_string(number); }

class ContextParallel final : public Plugin {
 public:
  void apply(Recipe& recipe, const Options& options) override {
    size_ = options.integer("size");
    by_ring_ = options.string("kind") == "ring";
    const TrainSpec& train = recipe.spec().train;
    if (size_ == 1 || train.world_size == 1) return;
    if (recipe.spec().model_kind != "llama")
      throw Error("context_parallel does not support a model of kind '" + recipe.spec().model_kind + "'",
                  "use rush.llama or rush.checkpoint");
    const int64_t parts = by_ring_ ? 2 * size_ : size_;
    if (train.seq_len % parts != 0)
      throw Error("context_parallel: a sequence of " + text(train.seq_len) +
                      " positions cannot be split into " + text(parts) + " equal parts" +
                      (by_ring_ ? ", two for each rank of the ring" : ""),
                  "use a train.seq_len that is a multiple of " + text(parts) + ", or fewer ranks");
    const LlamaSpec model = llama_of(recipe.spec());
    refuse_by_position(model);
    if (model.has_latents())
      throw Error(
          "context_parallel does not support latent attention: a ring sends keys and values of one width",
          "remove context_parallel from the stack");
    if (model.has_mixed_heads())
      throw Error(
          "context_parallel does not support full_attention.head_dim and kv_heads: its messages have one "
          "size in all layers",
          "remove context_parallel from the stack");
    if (const char* linear = model.linear_attention())
      throw Error("context_parallel does not support " + std::string(linear) +
                      ": each position needs the state of the one before it",
                  "remove context_parallel from the stack");
    if (model.attention_sinks && !by_ring_)
      throw Error(
          "context_parallel with kind = \"all_to_all\" does not support attention_sinks: each rank has the "
          "log-sum-exp of some heads only",
          "use kind = \"ring\"");
    if (by_ring_) demand_of_halves(recipe, model);
    recipe.mesh.dim({.name = kDim, .size = size_, .splits = Splits::sequence, .nearness = 30});
    recipe.on(Event::meta_initialized, Phase::context, [this, &recipe](Run& run) {
      by_ring_ ? refuse_other_attention(recipe) : refuse_uneven_heads(run);
    });
    cut_batches(recipe);
    exchange_in_attention(recipe);
    recipe.on(Event::ready, Phase::context, [this, &recipe](Run& run) { expect_traffic(run, recipe); });
  }

 private:
  static void refuse_by_position(const LlamaSpec& model) {
    if (model.position == PositionKind::alibi)
      throw Error(
          "context_parallel does not support position = \"alibi\": attention needs the distances "
          "between positions of several ranks",
          "use position = \"rope\", or remove context_parallel from the stack");
  }

  /// Demands the features of the separate forward and backward that the model needs.
  static void demand_of_halves(Recipe& recipe, const LlamaSpec& model) {
    SlotInfo& halves = recipe.ops.attention_forward_backward;
    if (model.window != 0 && model.window < recipe.spec().train.seq_len) halves.demand(feature::window);
    if (model.attention_soft_cap != 0) halves.demand(feature::soft_cap);
  }

  /// A ring computes with the two halves, so they must belong to the attention that the ring replaces.
  static void refuse_other_attention(const Recipe& recipe) {
    if (recipe.rows.edited() && !recipe.rows.base().traits.has(feature::longest))
      throw Error("context_parallel: a ring does not support packed documents, which '" +
                      recipe.rows.base().plugin + "' creates",
                  "use kind = \"all_to_all\"");
    const SlotInfo &attention = recipe.ops.attention, &halves = recipe.ops.attention_forward_backward;
    const std::string &whole = attention.base().plugin, &parts = halves.base().plugin;
    std::string other = whole == parts || whole == "plain" ? "" : whole;
    const Edit own{Phase::context, "context_parallel", {}};
    for (const Edit& wrap : attention.wraps())
      if (wrap < own) other = wrap.plugin;
    if (!other.empty())
      throw Error("context_parallel: a ring would ignore the changes of '" + other + "' to attention",
                  "use kind = \"all_to_all\", or a plugin that provides attention_forward_backward as well");
    std::string half = whole == parts || whole != "plain" ? "" : parts;
    if (!halves.wraps().empty()) half = halves.wraps().front().plugin;
    if (!half.empty())
      throw Error("context_parallel: a ring would change attention by '" + half +
                      "', which edits attention_forward_backward only",
                  "use kind = \"all_to_all\", or remove one of the two");
  }

  /// Counts the heads of this rank: tensor parallelism may have cut the matrices before.
  void refuse_uneven_heads(Run& run) const {
    const LlamaSpec model = llama_of(run.spec());
    for (const char* name : {"q_proj", "k_proj"}) {
      const int64_t heads = heads_of(run, name, model.head_size());
      if (heads % size_ != 0)
        throw Error("context_parallel: " + text(size_) + " ranks cannot divide " + text(heads) +
                        " heads of '" + name + "' of each rank",
                    "use kind = \"ring\", which does not split heads, or a size that divides them");
    }
  }

  static int64_t heads_of(Run& run, const std::string& linear, int64_t head_size) {
    for (const Module* module : run.modules("linear"))
      if (module->path.ends_with(linear)) return module->params.at(0)->layout.box_shape().at(0) / head_size;
    return 0;
  }

  void cut_batches(Recipe& recipe) const {
    recipe.data.wrap(Phase::context,
                     [this, &mesh = recipe.mesh](auto inner) {
                       return [this, &mesh, inner = std::move(inner)](int64_t step) {
                         std::vector<Batch> batches = inner(step);
                         for (Batch& batch : batches)
                           batch = slice_of(std::move(batch), size_, mesh.rank(kDim), by_ring_);
                         return batches;
                       };
                     },
                     {.trace = Trace::aten, .predictable = true});
  }

  void exchange_in_attention(Recipe& recipe) {
    recipe.ops.attention.wrap(Phase::context,
                              [this, &mesh = recipe.mesh](Ops::Attention::Fn inner) -> Ops::Attention::Fn {
                                Group& ranks = mesh.group({kDim});
                                return by_ring_ ? ring(ranks) : between_exchanges(ranks, std::move(inner));
                              },
                              {.trace = Trace::opaque, .predictable = true});
  }

  /// The kernel of the ring is the separate forward and backward of the replaced attention. They are known at
  /// the first call.
  static Ops::Attention::Fn ring(Group& ranks) {
    return [&ranks, made = std::make_shared<std::optional<Ring>>()](
               const Tensor& q, const Tensor& k, const Tensor& v, const AttentionArgs& args) {
      if (args.segments.defined())
        throw Error("context_parallel: a ring does not support packed documents",
                    "use kind = \"all_to_all\"");
      if (!*made) {
        if (args.halves == nullptr)
          throw Error("context_parallel: the stacked attention has no separate forward and backward",
                      "use kind = \"all_to_all\"");
        made->emplace(ranks, args);
      }
      if (!(*made)->is_for(args))
        throw Error(
            "context_parallel: a ring does not support arguments of attention that change between calls",
            "use kind = \"all_to_all\"");
      return (**made)(q, k, v);
    };
  }

  Ops::Attention::Fn between_exchanges(Group& ranks, Ops::Attention::Fn inner) {
    if (!exchange_) exchange_.emplace(ranks);
    return [this, inner = std::move(inner)](const Tensor& q, const Tensor& k, const Tensor& v,
                                            const AttentionArgs& args) -> AttentionOut {
      if (args.lse)
        throw Error("context_parallel: each rank has the log-sum-exp of some heads only",
                    "use kind = \"ring\"");
      const auto whole = [&](const Tensor& x) { return exchange_->whole_sequence(x); };
      return {exchange_->all_heads(inner(whole(q), whole(k), whole(v), args).out), {}};
    };
  }

  /// Expects nothing under recomputation, because a recomputed forward sends again.
  void expect_traffic(Run& run, const Recipe& recipe) const {
    if (recipe.activations().policy != ActivationPolicy::Kind::save) return;
    const TrainSpec& train = run.spec().train;
    const LlamaSpec model = llama_of(run.spec());
    const auto layers = static_cast<double>(run.modules("attention").size());
    if (layers == 0) return;
    const Param& matrix = *run.modules("linear").front()->params.at(0);
    const auto type = matrix.compute_dtype.value_or(matrix.dtype);
    const auto width = static_cast<double>(at::elementSize(type)), wide = type == at::kDouble ? 8.0 : 4.0;
    const double rows = static_cast<double>(train.accumulation * train.micro_batch * train.seq_len / size_) *
                        static_cast<double>(model.head_size());
    const double keys = 2 * rows * static_cast<double>(heads_of(run, "k_proj", model.head_size()));
    const double queries = 2 * rows * static_cast<double>(heads_of(run, "q_proj", model.head_size()));
    const auto n = static_cast<double>(size_);
    if (by_ring_)
      run.expect_traffic("send", {kDim}, layers * (n - 1) * keys * (2 * width + wide));
    else
      run.expect_traffic("all_to_all", {kDim}, layers * (n - 1) / n * 2 * (keys + queries) * width);
  }

  int64_t size_ = 1;
  bool by_ring_ = true;
  std::optional<HeadsExchange> exchange_;
};
}  // namespace

OPTRUSH_PLUGIN(ContextParallel, R"json({
  "name": "context_parallel", "version": "0.1.0", "kind": "parallelism", "effect": "rounding",
  "summary": "each rank has a part of every sequence; attention exchanges keys and values, or heads",
  "doc": "With train.world_size = 1 it changes nothing. With more ranks, `size` of them share each sequence. ddp or fsdp must be stacked with it, and also sums gradients over them.",
  "conflicts": ["cuda_graphs"],
  "options": [
    {"name": "size", "type": "integer", "default": 2, "min": 1, "max": 65536, "doc": "ranks that share a sequence"},
    {"name": "kind", "type": "string", "default": "ring", "choices": ["ring", "all_to_all"], "doc": "what attention exchanges; ring: keys and values; all_to_all: each rank gets the whole sequence for some of the heads"}
  ]
})json");
