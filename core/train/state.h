#pragma once
#include <optional>
#include <vector>

#include "data/data_position.h"
#include "io/state_folder.h"
#include "train/session.h"

namespace optrush {
/// The optimizer state of a shard. An Error names the optimizer's plugin where a tensor is not there or has
/// another number of entries than its block says, where two have one name, or where two are the parameter.
std::vector<OptimizerState> optimizer_state(Session&, const Shard&);

/// The part that this rank saves: all ranks together save each logical element once. Trainable parameters,
/// everything of the optimizer, what plugins keep, the number of the next step, from which random numbers
/// follow, and how far data were read. Frozen parameters are those that the run started from. Call it, and
/// read the values, where EvaluatedParameters live.
std::vector<StatePiece> state_to_save(Session&, int64_t next_step,
                                      const std::optional<DataPosition>& read = std::nullopt);

/// Takes this rank's part, whatever the mesh that saved it. Returns how far the run that saved it had read
/// its data; none where the state does not say. An Error names what is missing.
std::optional<DataPosition> load_state(Session&, const SavedState&);
/// Only the parameters: trainable ones that were saved.
void load_parameters(Session&, const SavedState&);
}  // namespace optrush
