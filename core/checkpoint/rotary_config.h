#pragma once
#include "checkpoint/config_fields.h"
#include "optrush/spec.h"

namespace optrush {
/// The rotary settings of a config.json.
struct RotaryConfig {
  double theta = 10000;
  RopeScaling scaling;
  double window_theta = 0;  ///< base of layers with a window, which have no scaling; 0: as all layers
  int64_t longest = 0;      ///< longest sequence for which the frequencies hold; 0: any
  Json written;             ///< "rope_scaling" in the form that transformers 4 and 5 both read; null: none
};

/// Reads all forms of transformers 4 and 5: "rope_theta" with "rope_scaling", "rope_parameters" with both,
/// "type" for "rope_type", and "original_max_position_embeddings" in the table or beside it. transformers 5
/// may have one table per type of layer. Throws an Error for an unsupported field, or if two forms of one
/// setting disagree, because the versions of transformers would then compute different functions.
/// `max_positions`: default of the original length. `theta`: default of the base. `window_theta`: the field
/// with the base of layers with a window (default 10000); null: the class has one base.
RotaryConfig read_rotary(const ConfigFields&, int64_t max_positions, double theta = 10000,
                         const char* window_theta = nullptr);

/// "rope_scaling" for this scaling; null: none.
Json written_rope_scaling(const RopeScaling&);
}  // namespace optrush
