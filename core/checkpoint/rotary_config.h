#pragma once
#include "checkpoint/config_fields.h"
#include "optrush/spec.h"

namespace optrush {
/// The rotary settings of a config.json.
struct RotaryConfig {
  double theta = 10000;
  RopeScaling scaling;
  double window_theta = 0;  ///< base of the layers with a window, where nothing is rescaled; 0: as all layers
  int64_t longest = 0;      ///< the frequencies are these up to sequences of this length; 0: of any
  Json written;             ///< "rope_scaling" as transformers 4 and 5 both read it; null: none
};

/// Reads every spelling of transformers 4 and 5: "rope_theta" and "rope_scaling", "rope_parameters" that
/// holds both, "type" for "rope_type", and "original_max_position_embeddings" in the table or beside it. An
/// Error names the field that this program does not have, or two spellings of one setting that disagree: the
/// versions of transformers would then compute different functions. `max_positions`: of the model, the
/// default of the original length. `theta`: the base where the file has none. `window_theta`: the field with
/// the base of the layers with a window, 10000 where it is missing; null: the class has one base.
/// "rope_parameters" of transformers 5 may have a table for each type of layer.
RotaryConfig read_rotary(const ConfigFields&, int64_t max_positions, double theta = 10000,
                         const char* window_theta = nullptr);

/// "rope_scaling" for this rescaling; null: none.
Json written_rope_scaling(const RopeScaling&);
}  // namespace optrush
