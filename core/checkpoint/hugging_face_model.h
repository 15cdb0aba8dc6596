#pragma once
#include <filesystem>
#include <string>

#include "checkpoint/checkpoint_files.h"
#include "checkpoint/rotary_config.h"

namespace optrush {
/// The model that a Hugging Face folder's config.json describes.
struct HuggingFaceModel {
  std::string architecture;  ///< "LlamaForCausalLM"
  std::string model_type;    ///< "llama"
  Storage storage;           ///< how the class stores parameters
  LlamaSpec llama;           ///< with an empty `checkpoint`
  RotaryConfig rotary;
  int64_t max_positions = 0;  ///< "max_position_embeddings": number of positions that it was trained on
  std::string whole = {};     ///< the class with encoders of which this is the text model; "": there is none

  IgnoredTensors ignored_tensors() const;
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
}  // namespace optrush
