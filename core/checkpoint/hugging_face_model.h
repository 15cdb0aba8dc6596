#pragma once
#include <filesystem>
#include <string>

#include "checkpoint/architectures.h"
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
};

/// Reads a config.json of any class of architectures(), written by transformers 4 or 5. Throws an Error that
/// names an unsupported field.
HuggingFaceModel read_hugging_face_config(const ConfigFields&);
HuggingFaceModel read_hugging_face_model(const std::filesystem::path& folder);
}  // namespace optrush
