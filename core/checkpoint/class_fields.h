#pragma once
#include <cstdint>
#include <functional>

#include "checkpoint/config_fields.h"
#include "optrush/spec.h"

/// Fields of config.json that several classes of transformers have: `read_` sets the fields of a LlamaSpec,
/// `write_` is the inverse. A field that this program does not support is an Error with its name.
namespace optrush {
int64_t layers_of(const ConfigFields&);

/// Positions of a sliding window; 0: none. `otherwise`: where the key is missing; null is none.
int64_t window_of(const ConfigFields&, int64_t otherwise);
/// A window of all layers.
void read_window(const ConfigFields&, int64_t otherwise, Json& fields);
void write_window(const LlamaSpec&, Json& config);
/// Sets the window and the layers without it: by "layer_types", or where there is none by `windowed`.
void read_windows(const ConfigFields&, int64_t window, const std::function<bool(int64_t layer)>& windowed,
                  Json& fields);
void write_layer_types(const LlamaSpec&, Json& config);

/// A class with "attention_bias" has a bias in all four projections of attention.
void read_attention_bias(const ConfigFields&, Json& fields);
void write_attention_bias(const LlamaSpec&, Json& config);
void refuse_mlp_bias(const ConfigFields&);

/// The factor of the attention scores is "query_pre_attn_scalar" to the power of -1/2.
void read_query_scalar(const ConfigFields&, Json& fields);
void write_query_scalar(const LlamaSpec&, Json& config);
/// A soft cap; 0: none. `otherwise`: where the key is missing; null is none.
double soft_cap_of(const ConfigFields&, const char* key, double otherwise);
/// Null where `cap` is 0.
Json written_soft_cap(double cap);

/// `per_token` and `normalized` as the class has them. transformers 5 names the number of experts
/// "num_experts" or "num_local_experts", and 4 of the same class the other.
void read_experts(const ConfigFields&, int64_t per_token, bool normalized, Json& fields);
/// The number of experts under both names.
void name_experts(int64_t experts, Json& config);
void write_experts(const LlamaSpec&, Json& config);
/// Experts as the classes of Qwen name them, with layers that have an MLP.
void read_experts_of_qwen(const ConfigFields&, int64_t per_token, int64_t width, Json& fields);
void write_experts_of_qwen(const LlamaSpec&, Json& config);
}  // namespace optrush
