#pragma once
#include <ATen/core/grad_mode.h>

#include <map>
#include <string>

#include "support/training.h"
#include "train/state.h"

namespace optrush::testing {
/// The state that a run saves before its step `next_step`, by key.
inline std::map<std::string, Tensor> saved_state(Session& session, int64_t next_step) {
  const at::NoGradGuard no_grad;
  const EvaluatedParameters evaluated(session);
  std::map<std::string, Tensor> state;
  for (const StatePiece& piece : state_to_save(session, next_step))
    state[piece.key] = piece.value.clone().view(piece.layout.shape());
  return state;
}
}  // namespace optrush::testing
