#pragma once
#include <cstdint>

#include "train/session.h"

namespace optrush {
/// Bytes that this rank keeps of the model's states between steps, or for one: "parts" of a result's memory.
struct ModelStateBytes {
  int64_t parameters = 0;       ///< of the memory behind them, shared or not, and of copies in other types
  int64_t gradients = 0;        ///< of one micro-batch, where each is released as soon as it is final
  int64_t optimizer_state = 0;  ///< without counts, which have no dimension
};
ModelStateBytes model_state_bytes(Session&);
}  // namespace optrush
