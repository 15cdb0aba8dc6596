#include "optrush/ops.h"

#include <ATen/Functions.h>

#include "optrush/mesh.h"

namespace optrush {
namespace {
/// The position of each row's label in the part, and whether it is in the part.
struct Place {
  Tensor index;   ///< shape (rows, 1)
  Tensor inside;  ///< shape (rows)
};

Place place_of(const Tensor& labels, const VocabularyPart& part) {
  const Tensor inside = labels.ge(part.begin).logical_and(labels.lt(part.end));
  return {labels.sub(part.begin).masked_fill(inside.logical_not(), 0).unsqueeze(1), inside};
}
}  // namespace

VocabularySums over_vocabulary(const Tensor& logits, const Tensor& labels, const VocabularyPart& part) {
  const int64_t ranks = part.group->size(), rank = part.group->rank(), rows = logits.size(0);
  const auto [index, inside] = place_of(labels, part);
  const Tensor own = at::logsumexp(logits, 1).unsqueeze(0);
  const Tensor label = logits.gather(1, index).squeeze(1).mul(inside).unsqueeze(0);
  // One sum over ranks gathers the log-sum-exp of each rank (in separate rows) and the logit of the label,
  // which one rank has.
  const Tensor all =
      part.group->all_reduced(at::cat({at::zeros({rank, rows}, logits.options()), own,
                                       at::zeros({ranks - 1 - rank, rows}, logits.options()), label}));
  return {at::logsumexp(all.narrow(0, 0, ranks), 0), all.select(0, ranks)};
}

Tensor gradient_of_part(const Tensor& logits, const Tensor& labels, const Tensor& lse,
                        const VocabularyPart& part) {
  const auto [index, inside] = place_of(labels, part);
  // in place, because it may be the largest tensor
  const Tensor gradient = (logits - lse.unsqueeze(1)).exp_();
  gradient.scatter_add_(1, index, inside.to(logits.scalar_type()).neg().unsqueeze(1));
  return gradient.mul_(labels.ne(-100).unsqueeze(1));
}
}  // namespace optrush
