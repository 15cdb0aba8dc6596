#include "checkpoint/written_config.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "base/files.h"
#include "base/text.h"
#include "checkpoint/check_checkpoint.h"
#include "checkpoint/hugging_face_model.h"
#include "checkpoint/mixture_classes.h"
#include "optrush/error.h"
#include "spec/spec_json.h"

namespace optrush {
namespace {
/// Writes the form that both versions read. transformers 5 itself writes "rope_parameters", which 4 ignores.
void set_rotary(Json& config, const LlamaSpec& llama, Json scaling, const Architecture& architecture) {
  constexpr const char* kLength = "original_max_position_embeddings";
  for (const char* other : {"rope_parameters", "rope_scaling", kLength, "partial_rotary_factor"})
    config.erase(other);
  if (architecture.rotary.proportional != 0) {
    if (scaling.is_null()) scaling = {{"rope_type", "default"}};
    scaling["rope_theta"] = llama.rope_theta;
    const double of_windows = llama.window_rope_theta != 0 ? llama.window_rope_theta : llama.rope_theta;
    config["rope_parameters"] = {
        {"full_attention", std::move(scaling)},
        {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", of_windows}}}};
    return;
  }
  if (const auto type = scaling.find("rope_type"); type != scaling.end()) {
    const Json name = *type;
    scaling.erase(type);
    scaling[architecture.rope_type_key] = name;
  }
  config["rope_theta"] = llama.rope_theta;
  if (architecture.rotary.fraction != 0) config["partial_rotary_factor"] = llama.rotary_fraction;
  if (const RopeScaling& rope = llama.rope_scaling; rope.type == RopeType::longrope) {
    config[kLength] = rope.original_max_position;  // transformers 4 reads both lengths beside the table
    config["max_position_embeddings"] =
        std::llround(rope.factor * static_cast<double>(rope.original_max_position));
    for (const char* length : {"factor", kLength}) scaling.erase(length);
  }
  if (architecture.rotary.required && scaling.is_null()) scaling = {{architecture.rope_type_key, "default"}};
  if (architecture.rotary.queries) {  // transformers requires both
    scaling["llama_4_scaling_beta"] = llama.rope_scaling.query_beta;
    scaling[kLength] = llama.rope_scaling.original_max_position;
  }
  if (architecture.window_rope_theta != nullptr)
    config[architecture.window_rope_theta] =
        llama.window_rope_theta != 0 ? llama.window_rope_theta : llama.rope_theta;
  config["rope_scaling"] = std::move(scaling);
}

const char* written_activation(const LlamaSpec& llama) {
  const Json activation = to_json(llama).at("activation");
  return std::ranges::find(kActivationNames, activation, &ActivationName::activation)->name;
}

/// The same function, with each of its fields in one form.
LlamaSpec in_one_form(LlamaSpec llama) {
  llama.head_dim = llama.head_size();
  const double usual = 1 / std::sqrt(static_cast<double>(llama.head_dim));
  if (std::abs(llama.score_scale() / usual - 1) < 1e-14) llama.attention_scale = 0;
  if (llama.full_attention.head_dim == llama.head_dim) llama.full_attention.head_dim = 0;
  if (llama.full_attention.kv_heads == llama.n_kv_heads) llama.full_attention.kv_heads = 0;
  if (llama.per_layer_vocab_size == llama.vocab_size) llama.per_layer_vocab_size = 0;
  if (llama.window_rope_theta == llama.rope_theta && !llama.rope_scaling.rescales() &&
      !llama.has_mixed_heads())
    llama.window_rope_theta = 0;
  const LlamaSpec dense;
  if (llama.n_experts == 0) {
    llama.experts_per_token = dense.experts_per_token;
    llama.normalize_router = dense.normalize_router;
  } else if (llama.expert_ffn_dim == 0) {
    llama.expert_ffn_dim = llama.ffn_dim;
  }
  if (llama.n_experts == 0) llama.expert_ffn_dim = 0;
  if (llama.n_experts != 0 && llama.dense_layers.empty() && !llama.experts_beside_mlp)
    llama.ffn_dim = llama.expert_ffn_dim;
  if (llama.mamba.groups == 1) llama.mamba.norm_by_group = false;
  return llama;
}

Json written(const LlamaSpec& llama, int64_t max_positions, const Architecture& architecture) {
  Json config = {{"architectures", {architecture.name}},
                 {"model_type", architecture.model_type},
                 {"vocab_size", llama.vocab_size},
                 {"hidden_size", llama.dim},
                 {architecture.ffn_dim, llama.ffn_dim},
                 {"num_hidden_layers", llama.n_layers},
                 {"num_attention_heads", llama.n_heads},
                 {"num_key_value_heads", llama.n_kv_heads},
                 {"head_dim", llama.head_size()},
                 {"max_position_embeddings", max_positions},
                 {"tie_word_embeddings", llama.tie_embeddings},
                 {architecture.activation, written_activation(llama)},
                 {"rms_norm_eps", llama.norm_eps},
                 {"initializer_range", llama.init_std}};
  // The defaults of the classes may exceed a small vocabulary, and the row of a padding token is not trained.
  for (const char* token : {"pad_token_id", "bos_token_id", "eos_token_id"}) config[token] = nullptr;
  set_rotary(config, llama, written_rope_scaling(llama.rope_scaling), architecture);
  architecture.write(in_one_form(llama), config);
  return config;
}

const Architecture& architecture_named(const std::string& name) {
  return *std::ranges::find_if(architectures(), [&](const auto& known) { return name == known.name; });
}

/// The fields that determine the function.
Json choices_of(const LlamaSpec& llama) {
  Json choices = to_json(in_one_form(llama));
  choices["rope_scaling"] = written_rope_scaling(llama.rope_scaling);
  return choices;
}

/// The fields in which the class can't represent `llama`; nothing if it refuses them.
std::optional<std::vector<std::string>> differences(const LlamaSpec& llama, const Json& config) {
  const Json wanted = choices_of(llama);
  Json found;
  try {
    found = choices_of(read_hugging_face_config(ConfigFields(config, "config.json")).llama);
  } catch (const Error&) {
    return std::nullopt;
  }
  std::vector<std::string> fields;
  Json all = wanted;
  all.update(found);
  for (const auto& [field, value] : all.items())
    if (const Json held = found.value(field, Json()); held != wanted.value(field, Json()))
      fields.push_back(held.is_null() ? "no " + field : field + " = " + held.dump());
  return fields;
}
}  // namespace

Json hugging_face_config(const LlamaSpec& llama, int64_t max_positions) {
  std::vector<std::string> nearest;
  size_t fewest = std::numeric_limits<size_t>::max();
  std::set<std::vector<std::string>> seen;
  for (const Architecture& architecture : architectures()) {
    Json config = written(llama, max_positions, architecture);
    const auto different = differences(llama, config);
    if (!different) continue;
    if (different->empty()) return config;
    if (different->size() > fewest || !seen.insert(*different).second) continue;
    if (different->size() < fewest) nearest.clear();
    fewest = different->size();
    nearest.push_back(std::string(architecture.name) + " with " + join(*different));
  }
  throw Error(ErrorCode::unsupported,
              "the model cannot be written for transformers: none of its supported classes has this "
              "combination of choices",
              "the nearest are " + join(nearest, ", or "));
}

std::optional<std::string> unwritable(const RunSpec& spec) {
  const bool saves = spec.save.every > 0 || spec.validate.keep_best;
  if (!saves || spec.model_kind != "llama" || !checkpoint_of(spec).empty()) return std::nullopt;
  try {
    hugging_face_config(llama_from_json(spec.model, ""), spec.train.seq_len);
    return std::nullopt;
  } catch (const Error& e) {
    return e.message() + " (" + e.cure() +
           "). Its states are saved, but 'optrush weights' exports no more than an adapter of them";
  }
}

Json config_of_checkpoint(const std::filesystem::path& folder) {
  const HuggingFaceModel model = read_hugging_face_model(folder);
  Json config = text_fields(folder).json();
  config["architectures"] = {model.architecture};
  config["tie_word_embeddings"] = model.llama.tie_embeddings;
  config["model_type"] = model.model_type;
  config.erase("quantization_config");
  if (model.llama.n_experts > 0) name_experts(model.llama.n_experts, config);
  if (model.storage.names == ParameterNames::granite) name_mamba_layers(config);
  config.erase("time_step_limit");  // the supported value is the default
  set_rotary(config, model.llama, model.rotary.written, architecture_named(model.architecture));
  return config;
}

Storage storage_of(const Json& config) {
  return read_hugging_face_config(ConfigFields(config, "config.json")).storage;
}

Storage storage_of(const LlamaSpec& llama) {
  if (!llama.checkpoint.empty()) return read_hugging_face_model(llama.checkpoint).storage;
  constexpr int64_t kAnyLength = 1;
  for (const Architecture& architecture : architectures()) {
    const Json config = written(llama, kAnyLength, architecture);
    if (const auto different = differences(llama, config); different && different->empty())
      return storage_of(config);
  }
  return {};
}

Json with_dtype(Json config, const std::string& dtype) {
  static const std::map<std::string, std::string> names = {
      {"fp32", "float32"}, {"fp64", "float64"}, {"bf16", "bfloat16"}};
  for (const char* key : {"dtype", "torch_dtype"}) config[key] = names.at(dtype);
  return config;
}
}  // namespace optrush
