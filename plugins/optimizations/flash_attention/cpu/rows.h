#pragma once
#include <c10/util/BFloat16.h>

#include <cstdint>

namespace optrush::flash::cpu {
/// The part [begin, end) of a row.
struct Range {
  int64_t begin, end;
};

/// Replaces the visible scores of a row (width) by e^(scale (score - largest)), the others by 0. Returns
/// their sum, and log sum e^(scale score) in `lse`.
float exponentials(float* scores, Range visible, int64_t width, float scale, float* lse);

/// Replaces the visible scores by the weights e^(scale score - lse), the others by 0.
void weights_of(float* scores, Range visible, int64_t width, float scale, float lse);

/// Replaces gradients (width) of the weights by gradients of the scores: scale weight (gradient - inner).
void scores_gradient(float* gradients, const float* weights, int64_t width, float scale, float inner);

float inner_product(const float* a, const float* b, int64_t count);
float inner_product(const c10::BFloat16* a, const c10::BFloat16* b, int64_t count);

/// to = factor * from, rounded to its type. `from` and `to` may be the same memory.
void scaled(const float* from, float factor, int64_t count, float* to);
void scaled(const float* from, float factor, int64_t count, c10::BFloat16* to);
}  // namespace optrush::flash::cpu
