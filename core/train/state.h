#pragma once
#include <vector>

#include "io/state_folder.h"
#include "train/session.h"

namespace optrush {
/// What the optimizer keeps for a shard. An Error names the optimizer's plugin where a tensor is not there or
/// has another number of entries than its block says, where two have one name, or where two are the
/// parameter.
std::vector<OptimizerState> optimizer_state(Session&, const Shard&);

/// What this rank has to save: all ranks together save each logical element once. Trainable parameters,
/// everything of the optimizer, what plugins keep, and the number of the next step, from which data and
/// random numbers follow. Frozen parameters are those that the run started from.
std::vector<StatePiece> state_to_save(Session&, int64_t next_step);

/// Takes this rank's part, whatever the mesh that saved it. An Error names what is missing.
void load_state(Session&, const SavedState&);
/// Only the parameters: trainable ones that were saved.
void load_parameters(Session&, const SavedState&);
}  // namespace optrush
