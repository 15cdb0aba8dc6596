// Several documents in one sequence, so that little of it is padding (arXiv:2107.02027). Attention stays
// inside each document and positions begin anew, so a document's loss is what it is alone; only how many
// documents share a step changes, and which: so its losses are not those of another rung, step by step, and
// its effect is that of another task. It pays by as much as documents are shorter than a sequence, and
// nothing where they fill it.
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
    recipe.rows.replace(packing::pack, {.trace = Trace::aten, .capturable = false, .offers = {"double"}});
    recipe.ops.attention.demand("segments");
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
