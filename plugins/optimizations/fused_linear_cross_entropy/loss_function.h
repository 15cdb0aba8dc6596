#pragma once
#include <optional>

#include "optrush/differentiable.h"
#include "optrush/ops.h"

namespace optrush {
/// The results of a forward in addition to the loss.
struct LossGradients {
  bool x = true, weight = true;
};

/// Default number of rows of logits (.., V) that exist at a time: on a CPU as many as fit 64 MiB. On a GPU as
/// many as are 1 GiB, but 4,096 if those are at most 2 GiB: with fewer rows, the product for the gradient of
/// x leaves multiprocessors idle. `tokens` are cut evenly, so that the last chunk is not small.
int64_t automatic_chunk(int64_t row_bytes, int64_t tokens, at::DeviceType);

/// LossForm::chunk: all rows at once, so that the gradient of the weight is one product.
inline constexpr int64_t kAllTokens = -1;

/// The form of a loss.
struct LossForm {
  int64_t chunk = 0;          ///< rows of logits that exist at a time; 0: automatic; kAllTokens
  LossGradients wanted = {};  ///< made in the forward
  double soft_cap = 0;        ///< logits are soft_cap tanh(x Wᵀ / soft_cap); 0: x Wᵀ
};

/// The sum of the cross entropies of x Wᵀ against labels, with the requested gradients: outputs {the sum},
/// saved {the gradient of x, the gradient of the weight}, each if requested. x (.., D), labels (..) with -100
/// ignored, weight (V, D) of x's type. `factor`: of the gradients, (), fp64, on x's device; undefined: 1.
Differentiable::Result linear_cross_entropy(const Tensor& x, const Tensor& labels, const Tensor& weight,
                                            const LossForm&, const Tensor& factor = {});

/// The same as ATen calls, for a tracer and for devices without a kernel. If ranks split the vocabulary,
/// `weight` has the rows of this rank, the sum is over the whole vocabulary, and the gradients are the
/// gradients of this part.
Differentiable::Result linear_cross_entropy_by_operators(const Tensor& x, const Tensor& labels,
                                                         const Tensor& weight, const LossForm&,
                                                         const std::optional<VocabularyPart>& part = {},
                                                         const Tensor& factor = {});

/// The same as a pair: inputs x, labels, weight and, if it is known, the gradient that the backward will get,
/// as the `factor`. The backward multiplies by that gradient, or by its quotient with the factor, in place
/// unless it is traced, so it can run only once. If they are equal, it does nothing. An unneeded gradient is
/// not computed.
Differentiable make_loss_function(const LossForm&, const std::optional<VocabularyPart>& part = {});
}  // namespace optrush
