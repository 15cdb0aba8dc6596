#include "model/model.h"

#include "base/suggest.h"
#include "model/hugging_face.h"
#include "model/llama.h"
#include "optrush/error.h"

namespace optrush {
Model declare_model(const RunSpec& spec, Params& params, at::ScalarType dtype) {
  if (spec.model_kind == "llama") {
    auto llama = llama_from_json(spec.model, "model");
    if (const auto folder = llama.checkpoint; !folder.empty()) {
      llama = llama_from_hugging_face(folder);
      llama.checkpoint = folder;
    }
    Model model = declare_llama(llama, params, dtype);
    if (!llama.checkpoint.empty()) Checkpoint(llama.checkpoint).check_complete(params);
    return model;
  }
  throw Error("unknown model kind '" + spec.model_kind + "'", did_you_mean(spec.model_kind, {"llama"}));
}
}  // namespace optrush
