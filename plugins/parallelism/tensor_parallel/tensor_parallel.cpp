// Tensor parallelism (Megatron-LM, arXiv:1909.08053): ranks train on the same sequences, and each has a cut
// of every matrix: some of the heads, of the feed-forward width and of the vocabulary. Attention and MLP
// begin with matrices that are cut by outputs and end with one that is cut by inputs, so a rank's part of
// either is a summand, and one sum over the ranks makes it whole. Parameters, gradients, optimizer state and
// the activations inside of attention and MLP are divided by the number of ranks. A layer sends four sums of
// a micro-batch's activations (B, S, D), 2 (N - 1) / N times their bytes each: two in the forward, two in the
// backward.
//
// overlap = n hides forward sums behind the product that they follow, in the manner of arXiv:2410.01359: the
// product is cut into n parts along the sequence. Smaller products use a device less well, and the backward's
// sums are still waited for.
//
// It pays if a model, or its activations, does not fit on one device and the ranks are connected by links as
// fast as NVLink, because a rank waits for every sum. It does not pay over slow links, or if the cut matrices
// are too small to keep a device busy. sequence = true (arXiv:2205.05198) also splits the activations between
// attention and MLP (the residual stream and the norms) along the sequence; its gathers and reduce-scatters
// send as many bytes as the sums.
//
// All ranks route the tokens of a mixture of experts alike. Each rank has a cut of every expert and of the
// shared expert, and sums their outputs for a token, so a mixture needs the two sums of an MLP
// (arXiv:2303.06318).
//
// If there are fewer key and value heads than ranks, the heads are copied: a group of ranks shares one head
// and adds up its gradient. The logits are never whole on one rank: the loss needs only the log-sum-exps of
// the parts.
#include <ATen/Functions.h>

#include <algorithm>
#include <optional>

#include "cuts.h"
#include "optrush/plugin.h"
#include "region.h"

namespace {
using namespace optrush;
using namespace optrush::tensor_parallel;

constexpr const char *kDim = "tp", *kShared = "tp_shared";

std::string text(int64_t number) { return std::to_string(number); }

class TensorParallel final : public Plugin {
 public:
  void apply(Recipe& recipe, const Options& options) override {
    size_ = options.integer("size");
    by_sequence_ = options.boolean("sequence");
    overlap_ = options.integer("overlap");
    if (by_sequence_ && overlap_ > 1)
      throw Error("tensor_parallel: overlap and sequence exclude each other",
                  "set overlap = 1, or sequence = false");
    if (size_ == 1 || recipe.spec().train.world_size == 1) return;
    parts_ = size_;
    if (recipe.spec().model_kind == "llama")
      cut_decoder(model_ = llama_of(recipe.spec()));
    else if (recipe.spec().model.value("op", "") == "mlp" && !by_sequence_)
      cuts_ = {{"ffn", {{kDim}, {}, 1}}};
    else
      throw Error("tensor_parallel cannot split a model of kind '" + recipe.spec().model_kind + "'" +
                      (by_sequence_ ? " along its sequence" : ""),
                  "use rush.llama or rush.checkpoint");
    const int64_t shared = size_ / parts_;
    recipe.mesh.dim({.name = kDim, .size = parts_, .nearness = 40});
    if (shared > 1) recipe.mesh.dim({.name = kShared, .size = shared, .nearness = 41});
    edit(recipe);
  }

 private:
  static void refuse_unsplittable(const LlamaSpec& model) {
    const auto refuse = [](const std::string& what, const std::string& why) {
      throw Error("tensor_parallel does not support " + what + ": " + why,
                  "use fsdp, which shards the parameters of any model");
    };
    if (model.qk_norm == QkNorm::whole)
      refuse("qk_norm = \"whole\"", "a norm over all heads needs heads of other ranks");
    if (model.attention_bias == AttentionBias::all)
      refuse("attention_bias = \"all\"", "each rank would add the bias of the output");
    if (model.has_latents())
      refuse("latent attention",
             "its keys and values are made of one vector, which every rank would compute");
    if (const char* linear = model.linear_attention())
      refuse(linear, "its matrices hold queries, keys, values and gates of all heads");
    if (model.has_mixed_heads())
      refuse("full_attention.head_dim and kv_heads", "heads of one width are cut in all layers");
    if (model.carries())
      refuse("per_layer_input_dim and kv_shared_layers",
             "the stream between blocks carries what later layers read, and ranks would have parts of it");
    if (model.experts_beside_mlp)
      refuse("experts_beside_mlp", "norms inside of the mixture need the sum over the ranks");
    if (model.attention_gate) refuse("attention_gate", "one matrix makes queries and gates");
    if (model.expert_bias) refuse("expert_bias", "each rank would add the bias of an expert's output");
    if (model.position == PositionKind::alibi)
      refuse("position = \"alibi\"", "the slopes depend on the heads of other ranks");
  }

  void cut_decoder(const LlamaSpec& model) {
    refuse_unsplittable(model);
    if (model.n_heads % size_ != 0)
      throw Error("tensor_parallel: " + text(model.n_heads) + " heads cannot be split into " + text(size_),
                  "use a size that divides the number of heads");
    if (model.n_kv_heads % size_ != 0 && size_ % model.n_kv_heads != 0)
      throw Error("tensor_parallel: " + text(model.n_kv_heads) +
                      " key/value heads can neither be split into " + text(size_) + " nor shared among " +
                      text(size_) + " ranks evenly",
                  "use a size that divides the number of key/value heads, or a multiple of it");
    parts_ = std::min(size_, model.n_kv_heads);
    ranks_ = parts_ == size_ ? Mesh::Names{kDim} : Mesh::Names{kDim, kShared};
    const Mesh::Names copied = parts_ == size_ ? Mesh::Names{} : Mesh::Names{kShared};
    cuts_ = {{"vocab", {ranks_, {}, 1}},
             {"ffn", {ranks_, {}, 1}},
             {"heads", {ranks_, {}, model.head_size(), model.n_heads * model.head_size()}},
             {"query_heads", {ranks_, {}, 1, model.n_heads}},
             {"kv_heads", {{kDim}, copied, model.head_size(), model.n_kv_heads * model.head_size()}}};
  }

  void edit(Recipe& recipe) {
    const Mesh& mesh = recipe.mesh;
    recipe.on(Event::meta_initialized, Phase::tensor, [this](Run& run) {
      refuse_uneven(positions(run));
      cut_parameters(run, cuts_, ranks_, by_sequence_);
      region_.emplace(run.mesh().group(ranks_), by_sequence_);
    });
    // Compiled code can start a sum over ranks, but no other collective.
    const bool sums_alone = !by_sequence_ && overlap_ == 1;
    const Traits traits{.trace = sums_alone ? Trace::aten : Trace::opaque, .predictable = true};
    recipe.unit.wrap(
        Phase::tensor,
        [this, &recipe](UnitFunction inner, const Unit& unit) -> UnitFunction {
          if (!is_region(unit, model_)) return inner;
          const bool has_left = leaves_in_parts(recipe, unit.role, unit.layer);
          return [this, has_left, inner = std::move(inner)](const Tensor& x, const Batch& batch) {
            const Tensor out = inner(region_->enter(x), batch);
            return has_left ? out : region_->leave(out);
          };
        },
        traits);
    if (overlap_ > 1) sum_in_parts(recipe);
    recipe.ops.embedding.wrap(
        Phase::tensor,
        [this, &mesh](Ops::Embedding::Fn inner, const Module& module) -> Ops::Embedding::Fn {
          return [this, inner = std::move(inner),
                  part = vocabulary(*module.params.at(0), mesh)](const Tensor& tokens) {
            const Tensor absent = tokens.lt(part.begin).logical_or(tokens.ge(part.end));
            const Tensor rows = inner(tokens.sub(part.begin).masked_fill(absent, 0));
            return region_->leave(rows.masked_fill(absent.unsqueeze(-1), 0));
          };
        },
        traits);
    recipe.ops.head_loss.demand(feature::vocabulary);
    recipe.ops.head_loss.wrap(
        Phase::tensor,
        [this, &mesh](Ops::HeadLoss::Fn inner, const Module& module) -> Ops::HeadLoss::Fn {
          return [this, inner = std::move(inner), part = vocabulary(*module.params.at(0), mesh)](
                     const Tensor& x, const Batch& batch, const Ops::HeadParts& parts) {
            Ops::HeadParts of_part = parts;
            of_part.part = part;
            return inner(region_->enter(x), batch, of_part);
          };
        },
        traits);
    recipe.on(Event::ready, Phase::tensor, [this, &recipe](Run& run) { expect_traffic(run, recipe); });
  }

  /// Whether the last linear of attention or MLP already sums over the ranks. It does not if a plugin edits
  /// `mlp`, which may not call the linear, or in a mixture, which sends the sum of all experts.
  bool leaves_in_parts(const Recipe& recipe, UnitRole role, int64_t layer) const {
    if (overlap_ == 1) return false;
    return role == UnitRole::attention || (!model_.has_experts(layer) && !recipe.ops.mlp.edited());
  }

  void sum_in_parts(Recipe& recipe) {
    recipe.ops.linear.wrap(Phase::tensor,
                           [this, &recipe](Ops::Linear::Fn inner, const Module& module) -> Ops::Linear::Fn {
                             const std::string& of_input = module.params.at(0)->axes.at(1);
                             const bool last = of_input == "heads" || of_input == "ffn";
                             const UnitRole role = of_input == "ffn" ? UnitRole::mlp : UnitRole::attention;
                             if (!last || !leaves_in_parts(recipe, role, module.layer)) return inner;
                             return [this, inner = std::move(inner)](const Tensor& x) {
                               return region_->leave_in_parts(inner, x, overlap_);
                             };
                           },
                           {.trace = Trace::opaque, .predictable = true});
  }

  /// The positions of a sequence that these ranks have.
  static int64_t positions(Run& run) {
    return run.spec().train.seq_len / run.mesh().size(run.mesh().sequence());
  }

  void refuse_uneven(int64_t positions) const {
    if (overlap_ > positions)
      throw Error("tensor_parallel: a sequence of " + text(positions) + " positions cannot be split into " +
                      text(overlap_) + " parts",
                  "use a smaller overlap");
    if (by_sequence_ && positions % size_ != 0)
      throw Error("tensor_parallel: a sequence of " + text(positions) + " positions cannot be split into " +
                      text(size_),
                  "use a train.seq_len that size = " + text(size_) + " divides, or sequence = false");
  }

  VocabularyPart vocabulary(const Param& matrix, const Mesh& mesh) const {
    const AxisCut& cut = cuts_.at("vocab");
    const auto [begin, end] = range_of(cut, matrix.shape.at(0), mesh, matrix.name);
    const int64_t grains = matrix.shape.at(0) / cut.grain, widest = (grains + size_ - 1) / size_ * cut.grain;
    return {begin, end, widest, &mesh.group(ranks_)};
  }

  /// Expects one sum of outputs after each region, in the type of matrix products or, for a mixture, of the
  /// residual stream; one sum of gradients before each region and before the head; one sum after the
  /// embedding; and the sums of the loss. Expects nothing under recomputation, because a recomputed forward
  /// sends again.
  void expect_traffic(Run& run, const Recipe& recipe) const {
    if (recipe.activations().policy != ActivationPolicy::Kind::save) return;
    const TrainSpec& train = run.spec().train;
    double products = static_cast<double>(run.modules("attention").size());
    for (const Module* mlp : run.modules("mlp")) products += model_.has_experts(mlp->layer) ? 0 : 1;
    const auto mixtures = static_cast<double>(run.modules("router").size());
    // The matrix of a linear, or of the embedding on a rank that has no linear. Both are (.., D).
    const auto linears = run.modules("linear");
    const Param& matrix = *(linears.empty() ? run.modules("embedding") : linears).front()->params.at(0);
    const auto product = static_cast<double>(at::elementSize(matrix.compute_dtype.value_or(matrix.dtype)));
    const auto stream = static_cast<double>(at::elementSize(matrix.dtype));
    const auto rows = static_cast<double>(train.accumulation * train.micro_batch * positions(run));
    const double numbers = rows * static_cast<double>(matrix.shape.at(1));
    const double share = static_cast<double>(size_ - 1) / static_cast<double>(size_);
    const bool first = !run.modules("embedding").empty(), last = !run.modules("head_loss").empty();
    const double leaving = numbers * (products * product + (mixtures + (first ? 1 : 0)) * stream);
    const double entering = numbers * (products + mixtures + (last ? 1 : 0)) * stream;
    if (by_sequence_) {
      for (const char* collective : {"all_gather", "reduce_scatter"})
        run.expect_traffic(collective, ranks_, share * (leaving + entering));
    } else {
      run.expect_traffic("all_reduce", ranks_, 2 * share * (leaving + entering));
    }
    const double wide = std::max(stream, 4.0);
    if (last)
      run.expect_traffic("all_reduce", ranks_, 2 * share * rows * static_cast<double>(size_ + 1) * wide);
  }

  LlamaSpec model_;
  int64_t size_ = 1;
  int64_t parts_ = 1;  ///< of key and value heads
  bool by_sequence_ = false;
  int64_t overlap_ = 1;
  Mesh::Names ranks_ = {kDim};
  AxisCuts cuts_;
  std::optional<Region> region_;
};
}  // namespace

OPTRUSH_PLUGIN(TensorParallel, R"json({
  "name": "tensor_parallel", "version": "0.1.0", "kind": "parallelism", "effect": "rounding",
  "summary": "each rank has a part of every matrix: of the heads, the feed-forward width and the vocabulary",
  "doc": "With train.world_size = 1 it changes nothing. With more ranks, `size` of them train on the same sequences; the others are for data parallelism.",
  "conflicts": ["cuda_graphs"],
  "check": [{}, {"model": "experts"}],
  "options": [
    {"name": "size", "type": "integer", "default": 2, "min": 1, "max": 65536, "doc": "number of ranks that share a matrix"},
    {"name": "sequence", "type": "boolean", "default": false,
     "doc": "sequence parallelism: each rank has a part of the sequence in the residual stream and norms"},
    {"name": "overlap", "type": "integer", "default": 1, "min": 1, "max": 64,
     "doc": "number of parts of the output projections of attention and MLP; the all-reduce of one part overlaps with the computation of the next"}
  ]
})json");
