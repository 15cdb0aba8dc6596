#pragma once
#include <cstdint>
#include <vector>

#include "checkpoint/config_fields.h"
#include "optrush/spec.h"

namespace optrush {
/// Names of the parameters of experts. common: "mlp.gate", "mlp.experts.0.gate_proj", "mlp.shared_expert".
/// mixtral: "block_sparse_moe.gate", "block_sparse_moe.experts.0.w1". deepseek: "mlp.shared_experts".
/// gpt_oss: "mlp.router". granite: "block_sparse_moe.router". nemotron_h: checkpoint/nemotron_h.h.
enum class ParameterNames : uint8_t { common, mixtral, deepseek, gpt_oss, granite, nemotron_h };

/// A tensor of a file that holds several parameters of a layer, or a parameter of all its experts.
struct JoinedTensor {
  const char* name;  ///< below the layer: "self_attn.qkv_proj.weight"
  /// Parameters in order of their rows: "self_attn.q_proj.weight"; "*" stands for the number of an expert,
  /// and the experts are the first axis.
  std::vector<std::string> parts;
  bool alternating = false;  ///< row 0 of each part, then row 1 of each part, ...
  bool transposed = false;   ///< matrices are (in, out)
};

/// How a class of transformers stores parameters.
struct Storage {
  ParameterNames names = ParameterNames::common;
  double norm_offset = 0;  ///< added to the stored weight of a norm: 1 for Gemma
  /// Whether PEFT 0.21 loads adapters of its experts only with transformers 4.
  bool expert_adapters_need_4 = false;
  std::vector<JoinedTensor> joined = {};
  /// Tensors that may be stored joined; they are written apart.
  std::vector<JoinedTensor> joined_or_apart = {};
  /// Whether joined tensors may be stored as MXFP4: blocks of 4-bit numbers with a scale each.
  bool mxfp4 = false;
  /// Whether published files have a layer behind the last one that predicts further tokens. It is not read.
  bool prediction_layer = false;
  /// Other tensors of published files that are not read: the beginning of their names.
  const char* ignored = "";
  /// LlamaSpec::layers_without_mlp of the model, for the names of nemotron_h.
  std::vector<int64_t> layers_without_mlp = {};
};

/// A name of an activation in transformers.
struct ActivationName {
  const char* name;
  const char* activation;  ///< value of the field LlamaSpec::activation, for example "gelu_tanh"
};
/// Of several names of an activation, the first one is written.
inline constexpr ActivationName kActivationNames[] = {
    {"silu", "silu"},          {"swish", "silu"},
    {"gelu", "gelu"},          {"gelu_pytorch_tanh", "gelu_tanh"},
    {"gelu_new", "gelu_tanh"}, {"silu", "clamped_silu"},
    {"relu2", "relu2"}};

/// A field of config.json that has the value of a field of LlamaSpec.
struct SameField {
  const char* theirs;  ///< "n_group"
  const char* ours;    ///< its path in the spec: "/router/groups"
  const char* type;    ///< of OptionSchema
  Json otherwise;      ///< the class's value of a missing key
};

/// Fields of config.json that belong together. `read` sets fields of a LlamaSpec, and `write` is the inverse;
/// null: nothing.
struct FieldGroup {
  void (*read)(const ConfigFields&, Json& fields);
  void (*write)(const LlamaSpec&, Json& config);
};

/// Adds the fields of Gated DeltaNet, whose defaults all classes share, to `fields`.
std::vector<SameField> with_delta_net(std::vector<SameField> fields = {});
/// Adds the scales of embeddings, residuals and logits of Granite.
std::vector<SameField> with_granite_scales(std::vector<SameField> fields = {});

/// Rotary settings that only some classes have.
struct Rotary {
  double fraction = 0;   ///< default of "partial_rotary_factor"; 0: the class rotates whole heads
  int64_t original = 0;  ///< default of "original_max_position_embeddings" of longrope; 0: no longrope
  bool mscale = false;   ///< "mscale_all_dim" also scales the scores of attention
  bool queries = false;  ///< "llama_4_scaling_beta" scales queries
  /// Default of "partial_rotary_factor" of the type "proportional" of layers without a window; 0: no such
  /// type.
  double proportional = 0;
  /// "mrope_section" gives sections of a head the place of an image. Text has one place for all sections.
  bool images = false;
  bool required = false;  ///< versions of transformers differ in the scaling if config.json has none
};

/// A class of transformers that this program can train: the meaning and the defaults of its config.json.
struct Architecture {
  const char* name;        ///< name of the class
  const char* base;        ///< name of the class without a head, which stores the same weights
  const char* model_type;  ///< key by which AutoModelForCausalLM selects the class
  int64_t max_positions = 2048;
  double norm_eps = 1e-6, rope_theta = 10000;
  bool tied = false;
  bool counts_layers = true;  ///< "num_hidden_layers" is the number of blocks; false: a group sets it
  int64_t kv_heads = 0;       ///< 0: equal to the number of heads
  int64_t head_dim = 0;       ///< 0: hidden_size / num_attention_heads
  Rotary rotary = {};         ///< rotary settings that only some classes have
  /// The key for the type of a rotary scaling that transformers 4 and 5 both read.
  const char* rope_type_key = "rope_type";
  Storage storage = {};
  /// The field with the rotary base of layers with a window; null: the class has one base.
  const char* window_rope_theta = nullptr;
  /// Whether "rope_parameters" of transformers 5 has one table per type of layer.
  bool rotary_by_layer = false;
  /// The fields with the width and the activation of the MLP.
  const char* ffn_dim = "intermediate_size";
  const char* activation = "hidden_act";
  /// The activation if the field is missing. "relu2": the MLPs have no gates and only this activation.
  const char* default_activation = "silu";
  /// Fields of a LlamaSpec that all models of this class have.
  Json always = Json::object();
  /// The fields of config.json in which this class differs from a Llama without biases.
  std::vector<SameField> same = {};  ///< fields that only some classes have
  std::vector<FieldGroup> groups;

  void read(const ConfigFields&, Json& fields) const;
  void write(const LlamaSpec&, Json& config) const;
};

/// All classes. Llama is first, because a model that fits several classes is written as the first of them.
const std::vector<Architecture>& architectures();
}  // namespace optrush
