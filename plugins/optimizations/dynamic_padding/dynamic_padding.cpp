// Dynamic padding: each micro-batch is as long as its longest document, and not as long as train.seq_len. It
// is what collators of PyTorch do by default. Padding has no loss and no token attends to it, so losses and
// gradients are the same. It pays if documents are shorter than a sequence. Steps have other shapes, so
// nothing that compiles or records a step for one shape can be stacked with it. Packing leaves out more
// padding, but puts other documents into a step.
#include "optrush/plugin.h"

namespace {
using namespace optrush;

class DynamicPadding final : public Plugin {
 public:
  void apply(Recipe& recipe, const Options&) override {
    const std::string& kind = recipe.spec().data.kind;
    if (kind != "documents" && kind != "preferences")
      throw Skip(ErrorCode::unsupported,
                 "dynamic_padding shortens sequences of documents, but data of kind '" + kind +
                     "' fill every sequence already",
                 "set data = rush.documents(...) in the experiment, or remove the rung");
    recipe.rows.replace(
        one_in_each,
        {.trace = Trace::aten, .capturable = false, .offers = {feature::fp64, feature::longest}});
  }

 private:
  static Rows one_in_each(std::span<const int64_t> lengths, int64_t) {
    Rows rows(lengths.size());
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = {static_cast<int64_t>(i)};
    return rows;
  }
};
}  // namespace

OPTRUSH_PLUGIN(DynamicPadding, R"json({
  "name": "dynamic_padding", "version": "0.1.0", "kind": "optimization", "effect": "rounding",
  "summary": "each micro-batch of documents is as long as its longest document",
  "doc": "For data of rush.documents and rush.preferences.",
  "conflicts": ["compile", "cuda_graphs", "packing", "pipeline_parallel"],
  "check": [{"data": "documents"}],
  "options": []
})json");
