#include "checkpoint/hugging_face_model.h"
#include "checkpoint/llama_parameters.h"
#include "script/functions.h"
#include "spec/spec_json.h"

namespace optrush::functions {
namespace {
struct Decoder {
  LlamaSpec llama;
  int64_t max_positions = 0;
};

Decoder decoder_of(const Json& fields, const std::string& where) {
  const LlamaSpec given = llama_from_json(fields, where);
  if (given.checkpoint.empty()) return {given, 0};
  const HuggingFaceModel found = read_hugging_face_model(given.checkpoint);
  return {found.llama, found.max_positions};
}

int64_t count_parameters(const LlamaSpec& llama) {
  int64_t count = 0;
  for (const NamedShape& parameter : llama_parameters(llama)) {
    int64_t elements = 1;
    for (const int64_t size : parameter.shape) elements *= size;
    count += elements;
  }
  return count;
}
}  // namespace

Object sizes(ScriptContext&, const Call& call) {
  const ModelChoice& model = call.arguments.at("model").object<ModelChoice>();
  if (model.kind != "llama")
    throw Error(ErrorCode::unsupported, "rush.sizes: a model of kind '" + model.kind + "' is not a decoder",
                "give a model from rush.llama or rush.checkpoint");
  const auto [llama, max_positions] = decoder_of(model.fields, call.where);
  return Json{{"dim", llama.dim},
              {"n_layers", llama.n_layers},
              {"n_heads", llama.n_heads},
              {"n_kv_heads", llama.n_kv_heads},
              {"head_dim", llama.head_size()},
              {"ffn_dim", llama.ffn_dim},
              {"vocab_size", llama.vocab_size},
              {"tie_embeddings", llama.tie_embeddings},
              {"max_positions", max_positions},
              {"parameters", count_parameters(llama)}};
}
}  // namespace optrush::functions
