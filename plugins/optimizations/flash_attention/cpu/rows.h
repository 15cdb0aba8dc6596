#pragma once
#include <cstdint>

namespace optrush::flash::cpu {
/// scores (width) of a row, of which `visible` count, to e^(score - largest), and 0 behind them. Returns
/// their sum, and the largest in `largest`.
float exponentials(float* scores, int64_t visible, int64_t width, float* largest);

/// scores to the weights e^(score - lse), and 0 behind the visible ones.
void weights_of(float* scores, int64_t visible, int64_t width, float lse);

/// gradients (width) of the weights to those of the scores: weight (gradient - inner).
void scores_gradient(float* gradients, const float* weights, int64_t width, float inner);
}  // namespace optrush::flash::cpu
