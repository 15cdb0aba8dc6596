#pragma once
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/architectures.h"
#include "checkpoint/llama_parameters.h"
#include "io/safetensors_header.h"

namespace optrush {
/// The weights of a Hugging Face folder by the names of the model's parameters, whatever wrapper they were
/// saved from: model.safetensors, or model.safetensors.index.json and the files that it names. What is stored
/// twice must have one value.
class CheckpointFiles {
 public:
  /// Reads headers alone, but for tensors that are stored twice. An Error names the file.
  explicit CheckpointFiles(const std::filesystem::path& folder);

  struct Stored {
    const SafetensorsView* file;
    const SafetensorsEntry* entry;
  };
  /// Null where there is none. A tied head that is stored alone is found as the embedding.
  const Stored* find(std::string_view parameter) const;
  /// An Error where one of the model's parameters is missing, has another shape or no floating-point type, or
  /// where the head of a tied model has another value than its embedding.
  void check_complete(const std::vector<NamedShape>& model) const;
  /// Stored tensors that belong to none of these parameters.
  std::vector<std::string> strangers(const std::vector<std::string>& parameters) const;
  /// An Error of such a tensor.
  [[noreturn]] void refuse_stranger(const std::string& name,
                                    const std::vector<std::string>& parameters) const;

 private:
  const SafetensorsView& open(const std::string& file);
  void open_indexed(const std::filesystem::path& index);
  void add(const SafetensorsView& file);
  void check_head(bool tied) const;
  const Stored* at(const std::string& parameter) const;

  std::filesystem::path folder_;
  std::map<std::string, SafetensorsView> files_;
  std::map<std::string, Stored, std::less<>> stored_;  ///< by name of the parameter
};

/// The parameter that a tensor of this name is: without what torch.compile, data parallelism, activation
/// checkpointing and PEFT put into names, and with the "model." of a model that was saved without its head.
std::string parameter_name(std::string_view stored);
/// The name under which a class of transformers stores a parameter.
std::string stored_name(std::string_view parameter, ParameterNames);
}  // namespace optrush
