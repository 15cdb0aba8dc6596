// Muon (https://kellerjordan.github.io/posts/muon/, arXiv:2502.16982): the update of a matrix is its
// momentum, made nearly orthogonal. So directions that are rare in the gradients count as much as frequent
// ones. It pays in steps: it reaches a loss after fewer steps than AdamW. It costs matrix products: about
// 30 d^3 FLOPs for a square matrix of width d per step, beside 6 d^2 per token. This is little if a step has
// many more than 5 d tokens, and much if it has few. The state is one number per parameter; AdamW has two.
//
// Ranks share the work in rounds: each rank orthogonalizes one matrix of a shape and sends the result to
// the others. If ranks have parts of the matrices (fsdp, tensor_parallel), a reduce-scatter collects the
// parts first, and an all-gather spreads the result. If they have copies (ddp), there is only the all-gather.
// `distributed = false` is for interconnects that are too slow for it.
//
// The iteration computes in the type of the model's products with the matrix: bf16, as published, or the
// matrix's type. The optimizer below in the stack updates the embedding, the head and vectors, at
// `others_lr` times the learning rate. By default an update has the root mean square that AdamW's has in
// long trainings. At the beginning of a training AdamW's updates are larger, and the best rate of Muon is
// several times AdamW's best rate.
#include "optimizer.h"
#include "optrush/plugin.h"

namespace {
using namespace optrush;

class MuonPlugin final : public Plugin {
 public:
  void apply(Recipe& recipe, const Options& options) override {
    settings_.momentum = options.number("momentum");
    settings_.nesterov = options.boolean("nesterov");
    settings_.steps = options.integer("steps");
    settings_.scale = options.string("scale") == "spectral" ? muon::Scale::spectral : muon::Scale::match_rms;
    settings_.others_lr = options.number("others_lr");
    share_ = options.boolean("distributed");
    recipe.on(Event::meta_initialized, Phase::gradients, [](Run& run) {
      for (const Param* param : run.params().all())
        if (param->trainable && muon::is_hidden_matrix(*param)) return;
      throw Skip(ErrorCode::unsupported,
                 "muon updates the matrices of the blocks, but none of them is trained", "remove the rung");
    });
    // Inside wraps that only decide when an optimizer is called.
    recipe.optimizer.wrap(Phase::gradients, [this](auto inner) {
      return [this, inner](Run& run, std::span<Shard> shards) {
        muon::Split split = muon::split(shards);
        std::vector<muon::Round> rounds = rounds_of(run);
        return muon::make_optimizer(run.spec().train, settings_, split.matrices, std::move(rounds),
                                    inner(run, split.others));
      };
    });
  }

 private:
  std::vector<muon::Round> rounds_of(Run& run) const {
    std::vector<muon::Round> rounds = muon::make_rounds(run, share_);
    for (const muon::Round& round : rounds) {
      if (round.cut) run.expect_traffic("reduce_scatter", round.dims, round.bytes());
      run.expect_traffic("all_gather", round.dims, round.bytes());
    }
    return rounds;
  }

  muon::Settings settings_;
  bool share_ = true;
};
}  // namespace

OPTRUSH_PLUGIN(MuonPlugin, R"json({
  "name": "muon", "version": "0.1.0", "kind": "optimization", "effect": "model",
  "summary": "matrices updated with orthogonalized momentum, which reaches a loss in fewer steps",
  "doc": "The optimizer below it updates the embedding, the head and vectors.",
  "conflicts": ["bf16_weights"],
  "check": [{}, {"options": {"scale": "spectral"}, "with": ["fused_adamw", "mixed_precision"]}],
  "options": [
    {"name": "momentum", "type": "number", "default": 0.95, "min": 0, "max": 0.9999, "doc": "decay of the momentum"},
    {"name": "nesterov", "type": "boolean", "default": true, "doc": "Nesterov momentum"},
    {"name": "steps", "type": "integer", "default": 5, "min": 1, "max": 20, "doc": "Newton-Schulz iterations per update"},
    {"name": "scale", "type": "string", "default": "match_rms", "choices": ["match_rms", "spectral"], "doc": "match_rms: scale updates to a root mean square of 0.2, like AdamW's in long trainings; spectral: the published scaling, which needs a larger learning rate"},
    {"name": "others_lr", "type": "number", "default": 1, "min": 0.0001, "max": 100, "doc": "learning rate of embedding, head and vectors, relative to the rate of the matrices (train.lr)"},
    {"name": "distributed", "type": "boolean", "default": true, "doc": "ranks with copies of the matrices orthogonalize a share each and exchange the results"}
  ]
})json");
