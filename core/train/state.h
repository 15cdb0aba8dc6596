#pragma once
#include <optional>
#include <vector>

#include "data/data_position.h"
#include "io/state_folder.h"
#include "train/session.h"

namespace optrush {
/// The optimizer state of a shard. Throws an Error that names the optimizer's plugin if a tensor is missing
/// or has another number of entries than its block states, if two tensors have one name, or if two are the
/// parameter itself.
std::vector<OptimizerState> optimizer_state(Session&, const Shard&);

/// The part that this rank saves. All ranks together save each logical element once: trainable parameters,
/// the optimizer state, what plugins keep, the number of the next step, and the position in the data. Frozen
/// parameters are not saved, because they do not change. Call it and read the values while an
/// EvaluatedParameters lives.
std::vector<StatePiece> state_to_save(Session&, int64_t next_step,
                                      const std::optional<DataPosition>& read = std::nullopt);

/// Loads this rank's part of a state that any mesh saved. Returns the position in the data; none if the state
/// has none. Throws an Error that names a missing value.
std::optional<DataPosition> load_state(Session&, const SavedState&);
/// Loads only the saved (trainable) parameters.
void load_parameters(Session&, const SavedState&);
}  // namespace optrush
