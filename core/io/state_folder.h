#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "io/safetensors.h"
#include "optrush/param.h"

namespace optrush {
/// Some elements of a logical tensor of a run's state. Keys are "model/NAME", "optimizer/exp_avg/NAME",
/// "plugin/PLUGIN/NAME" and "run/step".
struct StatePiece {
  std::string key;
  Layout layout;
  Tensor value;  ///< the elements of the layout; may be a view of a tensor that the run changes later
};

/// Returns all pieces that the ranks saved under a key.
using SavedState = std::function<std::vector<StatePiece>(const std::string& key)>;

/// The file with the part of one rank. Its metadata states which elements each tensor holds.
SafetensorsContent state_part_content(const std::vector<StatePiece>&);
/// Writes the part of one rank after `step` steps to FOLDER/step-STEP/rank-RANK.safetensors.
void write_state_part(const std::filesystem::path& folder, int64_t step, int64_t rank,
                      const std::vector<StatePiece>&);
/// The size of the parts of all ranks. Throws an Error if a part is missing.
int64_t bytes_of_state(const std::filesystem::path& folder, int64_t step, int64_t ranks);
/// Writes FOLDER/state.json, which makes the state of this step the valid one, and removes earlier states.
void commit_state(const std::filesystem::path& folder, int64_t step, int64_t ranks);

/// Reads the valid state of a folder, for a mesh of any form.
class StateFolder {
 public:
  /// Reads the index, but no values. Throws an Error that names a missing or invalid file.
  explicit StateFolder(const std::filesystem::path&);

  int64_t step() const { return step_; }
  std::vector<std::string> keys() const;
  bool contains(const std::string& key) const { return parts_.contains(key); }
  /// The pieces with this key, as copies on the CPU; empty if there are none.
  std::vector<StatePiece> read(const std::string& key) const;
  /// The whole logical tensor. Throws an Error if no rank saved one of its elements.
  Tensor whole(const std::string& key) const;

 private:
  struct Part {
    const SafetensorsFile* file;
    std::string tensor;
    std::vector<Layout> boxes;  ///< in the order in which the tensor holds them
  };
  void read_index(const SafetensorsFile&, const std::string& where);

  std::filesystem::path folder_;
  int64_t step_ = 0;
  std::map<std::filesystem::path, SafetensorsFile> files_;
  std::map<std::string, std::vector<Part>> parts_;
};
}  // namespace optrush
