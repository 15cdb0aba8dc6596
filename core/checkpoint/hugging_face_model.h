#pragma once
#include <filesystem>
#include <string>

#include "checkpoint/architectures.h"

namespace optrush {
/// The rotary settings of a config.json.
struct RotaryConfig {
  double theta = 10000;
  double fraction = 1;  ///< the part of a head that is rotated
  RopeScaling scaling;
  double window_theta = 0;  ///< base of layers with a window, which have no scaling; 0: as all layers
  int64_t longest = 0;      ///< longest sequence for which the frequencies hold; 0: any
  Json written;             ///< "rope_scaling" in the form that transformers 4 and 5 both read; null: none
};

/// The model that a Hugging Face folder's config.json describes.
struct HuggingFaceModel {
  std::string architecture;  ///< "LlamaForCausalLM"
  std::string model_type;    ///< "llama"
  Storage storage;           ///< how the class stores parameters
  LlamaSpec llama;           ///< with an empty `checkpoint`
  RotaryConfig rotary;
  int64_t max_positions = 0;  ///< "max_position_embeddings": number of positions that it was trained on

  /// The beginning of the names of tensors that are not read; "": none.
  std::string ignored_tensors() const {
    return storage.prediction_layer ? "model.layers." + std::to_string(llama.n_layers) + "."
                                    : storage.ignored;
  }
};

/// Reads a config.json of any class of architectures(), written by transformers 4 or 5. Throws an Error that
/// names an unsupported field.
HuggingFaceModel read_hugging_face_config(const ConfigFields&);
HuggingFaceModel read_hugging_face_model(const std::filesystem::path& folder);
/// "rope_scaling" for this scaling; null: none.
Json written_rope_scaling(const RopeScaling&);
}  // namespace optrush
