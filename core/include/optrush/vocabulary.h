#pragma once
#include <cstdint>

#include "optrush/group.h"

namespace optrush {
/// The entries of a vocabulary whose logits are made here, where ranks split it.
struct VocabularyPart {
  int64_t begin = 0, end = 0;
  int64_t widest = 0;      ///< rows of the largest part: ranks that cut their work by it cut it alike
  Group* group = nullptr;  ///< the ranks that have the others
};

/// Of rows of logits that ranks have in parts (arXiv:1909.08053): what a cross entropy needs of all of them.
struct VocabularySums {
  Tensor lse;       ///< (rows): log-sum-exp over the whole vocabulary
  Tensor of_label;  ///< (rows): logit of the row's label; 0 where it is ignored
};
/// logits (rows, end - begin) in fp32 or fp64, labels (rows) of the whole vocabulary with -100 ignored. One
/// sum over the ranks, of (ranks + 1) x rows numbers; a tracer sees it as an operator.
VocabularySums over_vocabulary(const Tensor& logits, const Tensor& labels, const VocabularyPart&);
/// Of the sum over rows of lse - of_label, by the logits of the part: softmax - one-hot, 0 where the label is
/// ignored.
Tensor gradient_of_part(const Tensor& logits, const Tensor& labels, const Tensor& lse, const VocabularyPart&);
}  // namespace optrush
