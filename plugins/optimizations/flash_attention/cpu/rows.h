#pragma once
#include <c10/util/BFloat16.h>

#include <cstdint>

namespace optrush::flash::cpu {
/// The part [begin, end) of a row.
struct Range {
  int64_t begin, end;
};

/// Writes e^(scale (score - largest)) for the visible scores of a row (width), and 0 for the others. Returns
/// the sum, and log sum e^(scale score) in `lse`. Here and below, rows have whole vectors of memory, and a
/// result in fp32 may take the place of an argument.
float exponentials(const float* scores, Range visible, int64_t width, float scale, float* lse,
                   float* weights);
float exponentials(const float* scores, Range visible, int64_t width, float scale, float* lse,
                   c10::BFloat16* weights);

struct SoftmaxOfRow {
  float scale, lse;
  float inner;  ///< product of the output and its gradient
};
/// Writes the weights e^(scale score - lse) of the visible scores and, from gradients of the weights, the
/// gradients of the scores: scale weight (gradient - inner). Both are 0 for the other scores.
void softmax_gradient(const float* scores, const float* gradients, Range visible, int64_t width, SoftmaxOfRow,
                      float* weights, float* of_scores);
void softmax_gradient(const float* scores, const float* gradients, Range visible, int64_t width, SoftmaxOfRow,
                      c10::BFloat16* weights, c10::BFloat16* of_scores);

float inner_product(const float* a, const float* b, int64_t count);
float inner_product(const c10::BFloat16* a, const c10::BFloat16* b, int64_t count);

/// to = factor * from, rounded to its type. `from` and `to` may be the same memory.
void scaled(const float* from, float factor, int64_t count, float* to);
void scaled(const float* from, float factor, int64_t count, c10::BFloat16* to);
}  // namespace optrush::flash::cpu
