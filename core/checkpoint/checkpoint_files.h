#pragma once
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/architectures.h"
#include "checkpoint/joined_tensors.h"
#include "io/safetensors_header.h"

namespace optrush {
/// Names and shapes of a decoder's parameters, the same as core/model/llama.cpp declares, but without
/// LibTorch, so that scripts can check a checkpoint.
std::vector<NamedShape> llama_parameters(const LlamaSpec&);

/// Tensors of a folder that the model does not read.
struct IgnoredTensors {
  std::vector<std::string> beginnings = {};  ///< of their parameter names
  bool beside_language_model =
      false;  ///< tensors of encoders: no name part is "language_model" or "text_model"
};

/// The weights of a Hugging Face folder by parameter name, independent of the wrapper that they were saved
/// from: model.safetensors, or model.safetensors.index.json and the files that it names; or the tensors of a
/// PEFT adapter, adapter_model.safetensors. A tensor that is stored twice must have equal values.
class CheckpointFiles {
 public:
  /// Reads only headers, and the values of tensors that are stored twice. Errors name the file.
  explicit CheckpointFiles(const std::filesystem::path& folder);

  struct Stored {
    const SafetensorsView* file;
    const SafetensorsEntry* entry;
  };
  /// Null if there is no such tensor. A tied head that is stored without the embedding is returned for the
  /// embedding.
  const Stored* find(std::string_view parameter) const;
  /// Throws an Error if a tensor of the model is missing, has another shape or not a floating-point type, or
  /// if the head of a tied model differs from its embedding. A tensor in MXFP4 counts as the tensor.
  void check_complete(const std::vector<NamedShape>& model) const;
  /// Stored tensors that are none of these.
  std::vector<std::string> unknown(const std::vector<std::string>& tensors,
                                   const IgnoredTensors& ignored = {}) const;
  /// Throws the Error for such a tensor.
  [[noreturn]] void refuse_unknown(const std::string& name, const std::vector<std::string>& parameters) const;

 private:
  const SafetensorsView& open(const std::string& file);
  void open_indexed(const std::filesystem::path& index);
  void add(const SafetensorsView& file);
  void check_head(bool tied) const;
  [[noreturn]] void refuse(const std::string& what, const std::string& cure) const;
  bool has_mxfp4(const NamedShape&) const;

  std::filesystem::path folder_;
  std::map<std::string, SafetensorsView> files_;
  std::map<std::string, Stored, std::less<>> stored_;  ///< by parameter name
};

/// A tensor (E, in, out) in MXFP4 is stored as two: `blocks` of 16 bytes, shape (E, out, in / 32, 16), and
/// `scales`, shape (E, out, in / 32).
struct Mxfp4Names {
  std::string blocks, scales;
};
Mxfp4Names mxfp4_names(std::string_view tensor);

/// The parameter name of a stored tensor: without the name parts of torch.compile, data parallelism,
/// activation checkpointing and PEFT, and with "model." if the model was saved without its head.
std::string parameter_name(std::string_view stored);
/// The name under which a class of transformers stores a parameter.
std::string stored_name(std::string_view parameter, ParameterNames);
}  // namespace optrush
