#pragma once
#include <cstdint>
#include <span>

#include "checkpoint/config_fields.h"
#include "optrush/spec.h"

namespace optrush {
/// Names of the parameters of experts. common: "mlp.gate", "mlp.experts.0.gate_proj". mixtral:
/// "block_sparse_moe.gate", "block_sparse_moe.experts.0.w1".
enum class ParameterNames : uint8_t { common, mixtral };

/// How a class stores parameters.
struct Storage {
  ParameterNames names = ParameterNames::common;
  double norm_offset = 0;  ///< a norm multiplies with its stored weight + this: 1 for Gemma
};

/// A name of an activation in transformers.
struct ActivationName {
  const char* name;
  const char* activation;  ///< LlamaSpec::activation as a field has it: "gelu_tanh"
};
/// The first name of an activation is the one that is written.
inline constexpr ActivationName kActivationNames[] = {{"silu", "silu"},
                                                      {"swish", "silu"},
                                                      {"gelu", "gelu"},
                                                      {"gelu_pytorch_tanh", "gelu_tanh"},
                                                      {"gelu_new", "gelu_tanh"}};

/// A class of transformers whose models this program trains: what its config.json means and has where a field
/// is missing.
struct Architecture {
  const char* name;        ///< of the class
  const char* base;        ///< of the class without a head, which stores the same weights
  const char* model_type;  ///< by which AutoModelForCausalLM chooses the class
  int64_t max_positions = 2048;
  double norm_eps = 1e-6, rope_theta = 10000;
  bool tied = false;
  int64_t kv_heads = 0;  ///< 0: as many as heads
  int64_t head_dim = 0;  ///< 0: hidden_size / num_attention_heads
  /// The versions 4 and 5 of transformers both read the type of a rotary scaling under this name.
  const char* rope_type_key = "rope_type";
  Storage storage = {};
  /// Field with the rotary base of the layers with a window; null: the class has one base.
  const char* window_rope_theta = nullptr;
  /// "rope_parameters" of transformers 5 has a table for each type of layer.
  bool rotary_by_layer = false;
  /// Field with the activation of the MLP.
  const char* activation = "hidden_act";
  /// Its value where the field is missing.
  const char* default_activation = "silu";
  /// Sets the fields of a LlamaSpec that this class has and Llama has not.
  void (*read)(const ConfigFields&, Json& fields);
  /// The inverse: writes the fields of config.json that `read` understands.
  void (*write)(const LlamaSpec&, Json& config);
};

/// Llama first: a model that several classes have is written as the first of them.
std::span<const Architecture> architectures();
}  // namespace optrush
