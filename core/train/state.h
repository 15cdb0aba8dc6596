#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "io/state_folder.h"
#include "train/session.h"

namespace optrush {
/// The position of a run in its data.
struct DataPosition {
  int64_t samples = 0;  ///< number of samples that all ranks have read; the number of the next sample
  int64_t order = 0;    ///< Batches::order() of the data
};

/// The optimizer state of a shard. Throws an Error that names the optimizer's plugin if a tensor is missing
/// or has another number of entries than its block states, or if two have one name or are the parameter.
std::vector<OptimizerState> optimizer_state(Session&, const Shard&);

/// The part that this rank saves. All ranks together save each logical element once: trainable parameters,
/// the optimizer state, what plugins keep, the number of the next step, and the position in the data. Frozen
/// parameters are not saved, because they do not change. Read the values while an EvaluatedParameters lives.
std::vector<StatePiece> state_to_save(Session&, int64_t next_step,
                                      const std::optional<DataPosition>& read = std::nullopt);

/// Loads this rank's part of a state that any mesh saved. Returns the position in the data; none if the state
/// has none. Throws an Error that names a missing value.
std::optional<DataPosition> load_state(Session&, const SavedState&);

/// The parameters of a saved state, as the values with which a run begins.
class SavedParameters {
 public:
  /// Throws an Error if the state has a parameter that `all` lacks.
  SavedParameters(const std::filesystem::path& folder, const Params& all);
  /// The whole value, in the type of the state. Undefined if the state lacks it. Another shape is an Error.
  Tensor find(const Param&) const;

 private:
  StateFolder state_;
  std::string folder_;
};

/// Bytes of the model's states on this rank, as in "parts" of a result's memory.
struct ModelStateBytes {
  int64_t parameters = 0;       ///< memory of the parameters, each storage once, with copies in other types
  int64_t gradients = 0;        ///< with an update in the backward, the largest that exist at a time
  int64_t optimizer_state = 0;  ///< without 0-dimensional tensors such as step counts
};
ModelStateBytes model_state_bytes(Session&);

/// Checks that copies of a parameter on several ranks are equal, by a sum over their bits. Every rank calls
/// it, between steps. Throws an Error that names the first differing parameter and the ranks. If each rank
/// computes the gradient of its copy separately, for example of uncut matrices under tensor parallelism,
/// copies may round differently: a small difference is then a warning of the run.
void check_replicas(Session&);
}  // namespace optrush
