#pragma once
#include <filesystem>
#include <string>

#include "checkpoint/checkpoint_files.h"
#include "io/safetensors.h"
#include "optrush/param.h"

namespace optrush {
/// Reads the values of parameters from a Hugging Face folder (CheckpointFiles).
class Checkpoint {
 public:
  explicit Checkpoint(const std::filesystem::path& folder);
  /// The values of an adapter, in the form in which a model with this storage is stored.
  Checkpoint(const std::filesystem::path& folder, Storage);

  bool contains(const std::string& name) const {
    return joined_.find(name) != nullptr || files_.find(name) != nullptr;
  }
  /// Throws an Error if a parameter of the model is missing or has another shape, or if a tied head is stored
  /// with another value.
  void check_complete(const Params& model) const;
  /// Throws an Error if a tensor is no parameter of the model or of a plugin.
  void check_known(const Params& all) const;
  /// The full value on the CPU in the dtype of the file; in fp32 or wider if the class stores a shifted
  /// value, or if the file has it in MXFP4.
  Tensor read(const Param&) const;

 private:
  Tensor read_part(const PlaceInFile&) const;

  CheckpointFiles files_;
  std::filesystem::path folder_;
  Storage storage_;
  JoinedTensors joined_;
  IgnoredTensors ignored_;
};

/// Throws an Error if a folder of FromFolder lacks one of its parameters, has it in another shape, or
/// has another tensor.
void check_adapters(const Params&);

/// The inverse of Checkpoint::read: the value as the class stores it.
Tensor stored_value(const std::string& parameter, const Tensor& value, const Storage&);

/// Stored values of a model's parameters as the tensors of its files: joined, and with the names of the
/// class.
NamedTensors tensors_of_file(NamedTensors parameters, const Storage&);
}  // namespace optrush
