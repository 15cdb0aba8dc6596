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
/// Some elements of a logical tensor of a run's state: "model/NAME", "optimizer/exp_avg/NAME",
/// "plugin/PLUGIN/NAME", "run/step".
struct StatePiece {
  std::string key;
  Layout layout;
  Tensor value;  ///< the elements of the layout; it may be a view of what the run goes on to change
};

/// Every piece that was saved under a key, by whatever ranks.
using SavedState = std::function<std::vector<StatePiece>(const std::string& key)>;

/// Writes what one rank saves after `step` steps: FOLDER/step-STEP/rank-RANK.safetensors, whose metadata says
/// which elements of which logical tensor each of its tensors is.
void write_state_part(const std::filesystem::path& folder, int64_t step, int64_t rank,
                      const std::vector<StatePiece>&);
/// Of the parts of all ranks. An Error where one is not there.
int64_t bytes_of_state(const std::filesystem::path& folder, int64_t step, int64_t ranks);
/// FOLDER/state.json: from here on the state of this step is the one that counts. What was saved before is
/// removed.
void commit_state(const std::filesystem::path& folder, int64_t step, int64_t ranks);

/// The last whole state that was saved in a folder, for a mesh of any form.
class StateFolder {
 public:
  /// Reads what is there, but no values. An Error names the file that is missing or makes no sense.
  explicit StateFolder(const std::filesystem::path&);

  int64_t step() const { return step_; }
  std::vector<std::string> keys() const;
  /// None where nothing has this key. Copies, on the CPU.
  std::vector<StatePiece> read(const std::string& key) const;
  /// A whole logical tensor. Throws an Error if no rank saved one of its elements.
  Tensor whole(const std::string& key) const;

 private:
  struct Part {
    const SafetensorsFile* file;
    std::string tensor;
    std::vector<Layout> boxes;  ///< one after the other in the tensor
  };
  void read_index(const SafetensorsFile&, const std::string& where);

  std::filesystem::path folder_;
  int64_t step_ = 0;
  std::map<std::filesystem::path, SafetensorsFile> files_;
  std::map<std::string, std::vector<Part>> parts_;
};
}  // namespace optrush
