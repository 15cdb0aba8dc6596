// Freezes the embedding and the first blocks: they need no gradients and no optimizer state, and the backward
// stops above them. Pays in fine-tuning, where the lower blocks change least; it trains another model than
// full training does.
#include "optrush/plugin.h"

namespace {
using namespace optrush;

class FreezeBlocks final : public Plugin {
 public:
  void apply(Recipe& recipe, const Options& options) override {
    recipe.on(Event::meta_initialized, Phase::adapter, [count = options.integer("blocks")](Run& run) {
      for (const auto& unit : run.units()) {
        const bool below =
            unit->role == UnitRole::embed || (unit->role == UnitRole::block && unit->layer < count);
        if (!below) continue;
        for (Param* param : unit->params()) param->trainable = false;
      }
      run.note("froze the embedding and " + std::to_string(count) + " blocks");
    });
  }
};
}  // namespace

OPTRUSH_PLUGIN(FreezeBlocks, R"json({
  "name": "freeze_blocks", "version": "0.1.0", "kind": "optimization", "effect": "model",
  "summary": "the embedding and the first blocks keep their values",
  "check": [{"options": {"blocks": 1}}],
  "options": [
    {"name": "blocks", "type": "integer", "min": 1, "max": 1024, "doc": "how many blocks, from the input on"}
  ]
})json");
