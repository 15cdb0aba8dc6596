#pragma once
#include <cstdint>

#include "checkpoint/architectures.h"

namespace optrush {
/// The rotary settings of a config.json.
struct RotaryConfig {
  double theta = 10000;
  double fraction = 1;  ///< the part of a head that is rotated
  RopeScaling scaling;
  double window_theta = 0;  ///< base of layers with a window, which have no scaling; 0: as all layers
  int64_t longest = 0;      ///< longest sequence for which the frequencies hold; 0: any
  Json written;             ///< "rope_scaling" in the form that transformers 4 and 5 both read; null: none
};
/// Reads all forms of transformers 4 and 5: "rope_theta" with "rope_scaling", "rope_parameters" with both,
/// "type" for "rope_type", and "original_max_position_embeddings" in the table or beside it. transformers 5
/// may have one table per type of layer. Throws an Error for an unsupported field, or if two forms of one
/// setting disagree, because the versions of transformers would then compute different functions.
/// `max_positions`: default of the original length. The field Architecture::window_rope_theta has the base of
/// layers with a window (default 10000).
RotaryConfig read_rotary(const ConfigFields&, int64_t max_positions, const Architecture&);
/// "rope_scaling" for this scaling; null: none.
Json written_rope_scaling(const RopeScaling&);
}  // namespace optrush
