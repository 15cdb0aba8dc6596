#pragma once
#include <filesystem>
#include <string>

#include "checkpoint/checkpoint_files.h"

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
  std::string whole = {};     ///< the class with encoders of which this is the text model; "": there is none

  IgnoredTensors ignored_tensors() const {
    const std::string last = "model.layers." + std::to_string(llama.n_layers) + ".";
    return {storage.prediction_layer ? last : storage.ignored, !whole.empty()};
  }
};

/// The fields of the text model in the config.json of a folder: "text_config", if the model also has encoders
/// of images or sound.
ConfigFields text_fields(const std::filesystem::path& folder);

/// Reads a config.json of any class of architectures(), written by transformers 4 or 5. Throws an Error that
/// names an unsupported field. `whole`: of a text model, HuggingFaceModel::whole.
HuggingFaceModel read_hugging_face_config(const ConfigFields&, const std::string& whole = {});
HuggingFaceModel read_hugging_face_model(const std::filesystem::path& folder);
/// How the files of the folder store the parameters.
JoinedTensors joined_tensors(const HuggingFaceModel&, const CheckpointFiles&);
/// "rope_scaling" for this scaling; null: none.
Json written_rope_scaling(const RopeScaling&);
}  // namespace optrush
