// Vocabulary padding: the head multiplies with a matrix whose rows are padded with zeros to a multiple, and
// the logits of these rows are cut off. GPUs move and multiply rows of logits in whole vectors only if their
// length is a multiple of 8 or 16 (bf16), so a vocabulary such as GPT-2's 50257 = 29 x 1733 is slow in the
// product and in both products of its backward. OLMo and nanoGPT train with 50304 = 64 x 786 entries instead.
// The parameter keeps its shape, so the loss, saved states and exported weights do not change, nor do labels,
// samples and ranks that split the vocabulary. It costs a padded copy of the matrix for each micro-batch. It
// does not pay if the vocabulary is already a multiple, or on CPUs.
#include <ATen/Functions.h>

#include <algorithm>

#include "optrush/plugin.h"

namespace {
using namespace optrush;

/// A linear whose outputs are logits.
bool is_head(const Module& module) {
  const auto& axes = module.params.front()->axes;
  return !axes.empty() && axes.front() == "vocab";
}

class VocabPadding final : public Plugin {
 public:
  void apply(Recipe& recipe, const Options& options) override {
    const int64_t multiple = options.integer("multiple");
    recipe.on(Event::meta_initialized, Phase::base, [multiple](Run& run) { note(run, multiple); });
    // Replaces the base: adapters and ranks that split the vocabulary wrap it.
    recipe.ops.linear.wrap(
        Phase::base,
        [multiple](Ops::Linear::Fn inner, const Module& module) -> Ops::Linear::Fn {
          if (!is_head(module)) return inner;
          return [inner = std::move(inner), weight = module.params.front(), multiple](const Tensor& x) {
            const Tensor matrix = weight->compute_value();
            const int64_t rows = matrix.size(0), padding = (multiple - rows % multiple) % multiple;
            if (padding == 0) return inner(x);
            return at::linear(x, at::constant_pad_nd(matrix, {0, 0, 0, padding})).narrow(-1, 0, rows);
          };
        },
        {.trace = Trace::aten, .capturable = true});
  }

 private:
  static void note(Run& run, int64_t multiple) {
    for (const Module* module : run.modules("linear")) {
      if (!is_head(*module)) continue;
      const int64_t rows = module->params.front()->shape.front();
      if (rows % multiple == 0)
        throw Skip(ErrorCode::unsupported,
                   "vocab_padding has nothing to pad: the vocabulary of " + std::to_string(rows) +
                       " entries is a multiple of " + std::to_string(multiple),
                   "remove the rung");
      run.note("vocab_padding: the head computes " +
               std::to_string((rows + multiple - 1) / multiple * multiple) + " logits for a vocabulary of " +
               std::to_string(rows));
      return;
    }
    throw Skip(ErrorCode::unsupported, "vocab_padding pads the head, but this model has none",
               "remove the rung");
  }
};
}  // namespace

OPTRUSH_PLUGIN(VocabPadding, R"json({
  "name": "vocab_padding", "version": "0.1.0", "kind": "optimization", "effect": "rounding",
  "summary": "the head computes a multiple of 64 logits, so that a GPU takes its fast kernels; the added ones are removed",
  "doc": "The parameter keeps its shape. fused_linear_cross_entropy aligns its logits itself.",
  "conflicts": ["fused_linear_cross_entropy"],
  "check": [{"options": {"multiple": 40}}],
  "options": [
    {"name": "multiple", "type": "integer", "default": 64, "min": 2, "max": 65536, "doc": "the number of logits is a multiple of it"}
  ]
})json");
