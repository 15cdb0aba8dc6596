#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "optrush/json.h"
#include "optrush/spec.h"

namespace optrush {
/// The fields of a config.json. Null counts as missing, as in Hugging Face's classes.
class ConfigFields {
 public:
  /// Throws an Error if the file can't be read or is not a JSON object.
  explicit ConfigFields(const std::filesystem::path& file);
  /// From the contents of a file; `where` names it in messages.
  ConfigFields(Json contents, std::string where);

  /// Null if there is no such field.
  const Json& operator[](const std::string& key) const;
  /// Whether the file has the key, even with null.
  bool contains(const std::string& key) const { return json_.contains(key); }
  /// The value of a field, with a type of OptionSchema. Throws an Error if it has another type, or if it is
  /// missing and `otherwise` is null.
  Json value(const std::string& key, const std::string& type, const Json& otherwise = {}) const {
    return field((*this)[key], key, type, otherwise);
  }
  /// The same for a value from another place; `name` is for messages.
  Json field(const Json& value, const std::string& name, const std::string& type,
             const Json& otherwise = {}) const;
  /// Throws an Error that names the file.
  [[noreturn]] void refuse(const std::string& what, const std::string& cure) const;

  const std::string& where() const { return where_; }
  const Json& json() const { return json_; }

 private:
  std::string where_;
  Json json_;
};

// Fields of config.json that several classes of transformers share. `read_...` sets fields of a LlamaSpec,
// and `write_...` is the inverse. Unsupported values are Errors with the name of the field.
int64_t layers_of(const ConfigFields&);
/// Refuses another value of a field than the one that the class has, null for none. `why` completes "it is 1,
/// ".
void check_constant(const ConfigFields&, const char* key, const Json& value,
                    const char* why = "which is not supported");

/// Positions of a sliding window; 0: no window. `otherwise`: the value of a missing key. Null means no
/// window.
int64_t window_of(const ConfigFields&, int64_t otherwise);
/// A window for all layers.
void read_window(const ConfigFields&, int64_t otherwise, Json& fields);
void write_window(const LlamaSpec&, Json& config);
/// Sets the window and the layers without one: from "layer_types", or from `windowed` if that is missing.
void read_windows(const ConfigFields&, int64_t window, const std::function<bool(int64_t layer)>& windowed,
                  Json& fields);
/// Sets the layers without linear attention: from "layer_types", or each "full_attention_interval"-th. Its
/// convolution has the activation of the MLP, which must be SiLU.
void read_linear_layers(const ConfigFields&, Json& fields);
void write_layer_types(const LlamaSpec&, Json& config);
/// Replaces the types of layers by the names that transformers 4 reads in classes with Mamba 2. The other
/// functions, and transformers 5, read both.
void name_mamba_layers(Json& config);

/// Refuses limits of the time steps of Mamba 2.
void check_step_limit(const ConfigFields&);

/// "attention_bias" adds a bias to all four projections of attention.
void read_attention_bias(const ConfigFields&, Json& fields);
void write_attention_bias(const LlamaSpec&, Json& config);

/// The scale of attention scores is query_pre_attn_scalar^(-1/2).
void read_query_scalar(const ConfigFields&, Json& fields);
void write_query_scalar(const LlamaSpec&, Json& config);
/// The scale of attention scores is attention_multiplier.
void read_attention_multiplier(const ConfigFields&, Json& fields);
void write_attention_multiplier(const LlamaSpec&, Json& config);
/// A soft cap; 0: none. `otherwise`: the value of a missing key. Null means none.
double soft_cap_of(const ConfigFields&, const char* key, double otherwise);
/// Null if `cap` is 0.
Json written_soft_cap(double cap);
}  // namespace optrush
