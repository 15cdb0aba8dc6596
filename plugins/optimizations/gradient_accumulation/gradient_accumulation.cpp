// Gradient accumulation: one update for `steps` micro-batches. The optimizer and, with several ranks, the
// reduction run once for more tokens, with the activations of one micro-batch. It does not pay if a larger
// micro_batch fits in memory: larger matmuls beat repeated ones.
#include "optrush/plugin.h"

namespace {
class GradientAccumulation final : public optrush::Plugin {
 public:
  void apply(optrush::Recipe& recipe, const optrush::Options& options) override {
    recipe.set(&optrush::TrainSpec::accumulation, options.integer("steps"));
  }
};
}  // namespace

OPTRUSH_PLUGIN(GradientAccumulation, R"json({
  "name": "gradient_accumulation", "version": "0.1.0", "kind": "optimization", "effect": "batch",
  "summary": "one optimizer update for several micro-batches",
  "check": [{"options": {"steps": 2}}],
  "options": [
    {"name": "steps", "type": "integer", "min": 2, "max": 65536, "doc": "micro-batches per update; multiplies global_batch"}
  ]
})json");
