#pragma once
#include <cstdint>

#include "train/session.h"

namespace optrush {
/// Bytes of the model's states on this rank, as in "parts" of a result's memory. Parameters and optimizer
/// state live between steps, gradients during a step.
struct ModelStateBytes {
  int64_t parameters = 0;       ///< memory of the parameters, each storage once, with copies in other types
  int64_t gradients = 0;        ///< with an update in the backward, the largest that exist at a time
  int64_t optimizer_state = 0;  ///< without 0-dimensional tensors such as step counts
};
ModelStateBytes model_state_bytes(Session&);
}  // namespace optrush
