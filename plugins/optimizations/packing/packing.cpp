// Several documents in one sequence, to reduce padding (arXiv:2107.02027). Attention stays inside
// each document and positions restart, so a document's loss is the same as alone. But other
// documents share a step, so the losses of a step differ from other rungs, and its effect
// counts as a different task. The gain is the share of padding. There is none if documents fill a sequence.
#include "optrush/plugin.h"
#include "pack.h"

namespace {
using namespace optrush;

class Packing final : public Plugin {
 public:
  void apply(Recipe& recipe, const Options&) override {
    if (recipe.spec().data.kind != "documents")
      throw Skip(ErrorCode::unsupported,
                 "packing combines documents, but data of kind '" + recipe.spec().data.kind +
                     "' fill every sequence already",
                 "set data = rush.documents(...) in the experiment, or remove the rung");
    // Which documents share a sequence differs from step to step, so a recorded step can't be run again.
    recipe.rows.replace(packing::pack,
                        {.trace = Trace::aten, .capturable = false, .offers = {feature::fp64}});
    recipe.ops.attention.demand(feature::segments);
  }
};
}  // namespace

OPTRUSH_PLUGIN(Packing, R"json({
  "name": "packing", "version": "0.1.0", "kind": "optimization", "effect": "model",
  "summary": "several documents per sequence, with separate attention and separate losses",
  "doc": "For data of rush.documents.",
  "check": [{"data": "documents"}],
  "options": []
})json");
