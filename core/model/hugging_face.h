#pragma once
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "io/safetensors.h"
#include "optrush/param.h"
#include "optrush/spec.h"

namespace optrush {
/// What config.json of LlamaForCausalLM, of MistralForCausalLM without a window and of OlmoForCausalLM says;
/// an Error names each field that would need another model. `checkpoint` of the result is empty.
LlamaSpec llama_from_hugging_face(const std::filesystem::path& folder);

/// config.json of LlamaForCausalLM for this model. An Error where it has no such form.
Json hugging_face_config(const LlamaSpec&, int64_t max_positions);

/// The weights of a Hugging Face folder: model.safetensors, or model.safetensors.index.json and the files
/// that it names.
class Checkpoint {
 public:
  explicit Checkpoint(const std::filesystem::path& folder);

  bool contains(std::string_view name) const { return file_of_.contains(name); }
  /// An Error where one of the model's parameters is missing or has another shape.
  void check_complete(const Params& model) const;
  /// An Error where a tensor belongs to no parameter, of the model or of a plugin.
  void check_known(const Params& all) const;
  /// The full value as stored, on the CPU: its dtype is the file's.
  Tensor read(const Param&) const;

 private:
  void open(const std::string& file);
  const SafetensorsFile& at(const Param&) const;

  std::filesystem::path folder_;
  std::map<std::string, SafetensorsFile> files_;
  std::map<std::string, const SafetensorsFile*, std::less<>> file_of_;  ///< by name of the tensor
};
}  // namespace optrush
