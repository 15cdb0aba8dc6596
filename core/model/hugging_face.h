#pragma once
#include <filesystem>
#include <string_view>

#include "checkpoint/checkpoint_files.h"
#include "optrush/param.h"

namespace optrush {
/// The weights of a Hugging Face folder (CheckpointFiles) as values of parameters.
class Checkpoint {
 public:
  explicit Checkpoint(const std::filesystem::path& folder) : files_(folder), folder_(folder) {}

  bool contains(std::string_view name) const { return files_.find(name) != nullptr; }
  /// An Error where one of the model's parameters is missing or has another shape, or where a tied head is
  /// stored with another value.
  void check_complete(const Params& model) const;
  /// An Error where a tensor belongs to no parameter, of the model or of a plugin.
  void check_known(const Params& all) const;
  /// The full value as stored, on the CPU: its dtype is the file's.
  Tensor read(const Param&) const;

 private:
  CheckpointFiles files_;
  std::filesystem::path folder_;
};
}  // namespace optrush
