#include "checkpoint/written_config.h"

#include <map>

#include "base/files.h"
#include "checkpoint/hugging_face_model.h"
#include "optrush/error.h"

namespace optrush {
namespace {
constexpr double kEpsOfOlmo = 1e-5;  // of its class, no field of its config.json

/// Both versions read these; transformers 5 writes "rope_parameters", which 4 ignores.
void set_rotary(Json& config, double theta, const Json& scaling) {
  for (const char* other : {"rope_parameters", "original_max_position_embeddings", "partial_rotary_factor"})
    config.erase(other);
  config["rope_theta"] = theta;
  config["rope_scaling"] = scaling;
}
}  // namespace

Json hugging_face_config(const LlamaSpec& llama, int64_t max_positions) {
  const bool olmo = llama.norm == NormKind::layernorm_without_parameters;
  if (llama.norm == NormKind::layernorm || (olmo && llama.norm_eps != kEpsOfOlmo))
    throw Error("the model cannot be written for transformers: none of its classes has this model's norm",
                "use RMSNorm (LlamaForCausalLM), or layernorm_without_parameters with norm_eps = 1e-5 "
                "(OlmoForCausalLM)");
  Json config = {{"architectures", {olmo ? "OlmoForCausalLM" : "LlamaForCausalLM"}},
                 {"model_type", olmo ? "olmo" : "llama"},
                 {"vocab_size", llama.vocab_size},
                 {"hidden_size", llama.dim},
                 {"intermediate_size", llama.ffn_dim},
                 {"num_hidden_layers", llama.n_layers},
                 {"num_attention_heads", llama.n_heads},
                 {"num_key_value_heads", llama.n_kv_heads},
                 {"head_dim", llama.head_size()},
                 {"max_position_embeddings", max_positions},
                 {"tie_word_embeddings", llama.tie_embeddings},
                 {"attention_bias", false},
                 {"hidden_act", "silu"},
                 {"initializer_range", llama.init_std}};
  if (olmo) {
    config["clip_qkv"] = nullptr;
    config["pad_token_id"] = nullptr;  // the class has 1, whose row it does not train
  } else {
    config["rms_norm_eps"] = llama.norm_eps;
    config["mlp_bias"] = false;
  }
  set_rotary(config, llama.rope_theta, written_rope_scaling(llama.rope_scaling));
  return config;
}

Json config_of_checkpoint(const std::filesystem::path& folder) {
  const HuggingFaceModel model = read_hugging_face_model(folder);
  Json config = read_json(folder / "config.json");
  config["architectures"] = {model.architecture};
  config["tie_word_embeddings"] = model.llama.tie_embeddings;
  config["model_type"] = model.model_type;
  set_rotary(config, model.rotary.theta, model.rotary.written);
  return config;
}

Json with_dtype(Json config, const std::string& dtype) {
  static const std::map<std::string, std::string> names = {
      {"fp32", "float32"}, {"fp64", "float64"}, {"bf16", "bfloat16"}};
  for (const char* key : {"dtype", "torch_dtype"}) config[key] = names.at(dtype);
  return config;
}
}  // namespace optrush
