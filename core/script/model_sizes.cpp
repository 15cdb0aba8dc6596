#include "base/files.h"
#include "base/spec_json.h"
#include "script/functions.h"

namespace optrush::functions {
namespace fs = std::filesystem;
namespace {
struct Decoder {
  LlamaSpec llama;
  int64_t max_positions = 0;
};

Decoder decoder_of(const Json& fields, const std::string& where) {
  const LlamaSpec given = llama_from_json(fields, where);
  if (given.checkpoint.empty()) return {given, 0};
  const Json config = read_json(fs::path(given.checkpoint) / "config.json");
  const auto number = [&](const char* key, int64_t otherwise) {
    const Json value = config.value(key, Json());
    return value.is_number_integer() ? value.get<int64_t>() : otherwise;
  };
  Decoder found;
  found.llama.vocab_size = number("vocab_size", 0);
  found.llama.dim = number("hidden_size", 0);
  found.llama.n_layers = number("num_hidden_layers", 0);
  found.llama.n_heads = number("num_attention_heads", 0);
  found.llama.n_kv_heads = number("num_key_value_heads", found.llama.n_heads);
  found.llama.head_dim = number("head_dim", 0);
  found.llama.ffn_dim = number("intermediate_size", 0);
  found.llama.tie_embeddings = config.value("tie_word_embeddings", Json(false)) == true;
  found.max_positions = number("max_position_embeddings", 0);
  return found;
}

int64_t parameters_of(const LlamaSpec& llama) {
  const int64_t queries = llama.n_heads * llama.head_size(), keys = llama.n_kv_heads * llama.head_size();
  const int64_t block = llama.dim * (2 * queries + 2 * keys + 3 * llama.ffn_dim + 2);
  return llama.n_layers * block + llama.dim + (llama.tie_embeddings ? 1 : 2) * llama.vocab_size * llama.dim;
}
}  // namespace

Object sizes(ScriptContext&, const Call& call) {
  const Model& model = call.arguments.at("model").object<Model>();
  if (model.kind != "llama")
    throw Error("rush.sizes: a model of kind '" + model.kind + "' is no decoder",
                "give what rush.llama or rush.checkpoint returns");
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
              {"parameters", parameters_of(llama)}};
}
}  // namespace optrush::functions
