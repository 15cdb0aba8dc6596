#pragma once
#include <filesystem>
#include <string_view>

#include "checkpoint/checkpoint_files.h"
#include "optrush/param.h"

namespace optrush {
/// The weights of a Hugging Face folder (CheckpointFiles) as values of parameters.
class Checkpoint {
 public:
  explicit Checkpoint(const std::filesystem::path& folder);

  bool contains(std::string_view name) const { return files_.find(name) != nullptr; }
  /// An Error where one of the model's parameters is missing or has another shape, or where a tied head is
  /// stored with another value.
  void check_complete(const Params& model) const;
  /// An Error where a tensor belongs to no parameter, of the model or of a plugin.
  void check_known(const Params& all) const;
  /// The full value, on the CPU, in the dtype of the file; in fp32 at least where the class stores another
  /// value than the model has.
  Tensor read(const Param&) const;

 private:
  CheckpointFiles files_;
  std::filesystem::path folder_;
  Storage storage_;
};

/// The value of a parameter as the class of a checkpoint stores it: the inverse of Checkpoint::read.
Tensor stored_value(const std::string& parameter, const Tensor& value, const Storage&);
}  // namespace optrush
