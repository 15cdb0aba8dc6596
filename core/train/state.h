#pragma once
#include <functional>
#include <string>
#include <vector>

#include "train/session.h"

namespace optrush {
/// Some elements of a logical tensor of a run's state: "model/NAME", "optimizer/exp_avg/NAME",
/// "plugin/PLUGIN/NAME", "run/step".
struct StatePiece {
  std::string key;
  Layout layout;
  Tensor value;  ///< the elements of the layout; it may be a view of what the run goes on to change
};

/// What this rank has to save: all ranks together save each logical element once. Trainable parameters,
/// everything of the optimizer, what plugins keep, and the number of the next step, from which data and
/// random numbers follow. Frozen parameters are those that the run started from.
std::vector<StatePiece> state_to_save(Session&, int64_t next_step);

/// Every piece that was saved under a key, by whatever ranks.
using SavedState = std::function<std::vector<StatePiece>(const std::string& key)>;
/// Takes this rank's part, whatever the mesh that saved it. An Error names what is missing.
void load_state(Session&, const SavedState&);
}  // namespace optrush
