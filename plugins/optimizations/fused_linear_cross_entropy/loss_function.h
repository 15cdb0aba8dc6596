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
/// many as are 1 GiB, but 4,096 where those are at most 2 GiB: fewer leave multiprocessors without work in
/// the product that is the gradient of x. `tokens` are cut evenly, so that the last chunk is not a small one.
int64_t automatic_chunk(int64_t row_bytes, int64_t tokens, at::DeviceType);

/// The form of a loss.
struct LossForm {
  int64_t chunk = 0;          ///< rows of logits that exist at a time; 0: automatic
  LossGradients wanted = {};  ///< made in the forward
  double soft_cap = 0;        ///< logits are soft_cap tanh(x Wᵀ / soft_cap); 0: x Wᵀ
};

/// The sum of the cross entropies of x Wᵀ against labels, with the gradients that were asked for: outputs
/// {the sum}, saved {of x, of the weight}, each where asked for. x (.., D), labels (..) with -100 ignored,
/// weight (V, D) of x's type.
Differentiable::Result linear_cross_entropy(const Tensor& x, const Tensor& labels, const Tensor& weight,
                                            const LossForm&);

/// The same made of ATen calls: what a tracer sees, and what devices without a kernel run. Where ranks split
/// the vocabulary, `weight` has this one's rows, the sum is that of all, and the gradients are the part's.
Differentiable::Result linear_cross_entropy_by_operators(const Tensor& x, const Tensor& labels,
                                                         const Tensor& weight, const LossForm&,
                                                         const std::optional<VocabularyPart>& part = {});

/// The same as a pair: inputs x, labels, weight. Its backward only multiplies, in place unless it is traced,
/// so it can run only once. An unneeded gradient is not computed.
Differentiable make_loss_function(const LossForm&, const std::optional<VocabularyPart>& part = {});
}  // namespace optrush
