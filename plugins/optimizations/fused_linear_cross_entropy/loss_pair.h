#pragma once
#include "optrush/differentiable.h"

namespace optrush {
/// What a forward makes beside the loss.
struct Gradients {
  bool x = true, weight = true;
};

/// Rows of logits at a time where nobody says: 64 MiB of them on a CPU, 512 MiB on a GPU.
int64_t automatic_chunk(const Tensor& weight);

/// The sum of the cross entropies of x Wᵀ against labels, with the gradients that were asked for: outputs
/// {the sum}, saved {of x, of the weight}, each where asked for. x (.., D), labels (..) with -100 ignored,
/// weight (V, D); `chunk` rows of logits exist at a time.
Differentiable::Result linear_cross_entropy(const Tensor& x, const Tensor& labels, const Tensor& weight,
                                            int64_t chunk, Gradients);

/// The same as a pair: inputs x, labels, weight. Its backward only multiplies, in place where it is not
/// traced: it can be run once. A frozen weight gets no gradient and costs none. chunk 0: automatic.
Differentiable make_loss_pair(int64_t chunk, bool weight_trained);
}  // namespace optrush
