#pragma once
#include <filesystem>
#include <string>

#include "checkpoint/architectures.h"
#include "checkpoint/rotary_config.h"

namespace optrush {
/// The model that the config.json of a Hugging Face folder describes.
struct HuggingFaceModel {
  std::string architecture;  ///< "LlamaForCausalLM"
  std::string model_type;    ///< "llama"
  Storage storage;           ///< of the class
  LlamaSpec llama;           ///< `checkpoint` is empty
  RotaryConfig rotary;
  int64_t max_positions = 0;  ///< "max_position_embeddings": the positions that it was trained on
};

/// Reads the config.json of each class of architectures(), as transformers 4 or 5 writes it. An Error names
/// the field that would need another model.
HuggingFaceModel read_hugging_face_config(const ConfigFields&);
HuggingFaceModel read_hugging_face_model(const std::filesystem::path& folder);
}  // namespace optrush
