#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <optional>

#include "optrush/batch.h"
#include "optrush/slot.h"
#include "optrush/spec.h"
#include "optrush/unit.h"

namespace optrush {
class Group;

struct AttentionForwardBackward;

struct AttentionArgs {
  bool causal = true;
  double scale = 1;        ///< of the scores, before the softmax
  bool lse = false;        ///< also give the log-sum-exp of the scores; only from a base that offers "lse"
  Segments segments = {};  ///< of the batch; only for a base that offers "segments"
  /// The same kernel in two halves, as resolved at this module. Null where the caller has none.
  const AttentionForwardBackward* halves = nullptr;
};

struct AttentionOut {
  Tensor out;  ///< (B, H, S, K)
  Tensor lse;  ///< (B, H, S) fp32, for fp64 inputs fp64; natural logarithm; where asked for
};

/// Attention without autograd, in halves that a caller combines: a ring computes one part of the keys after
/// the other, merges the outputs by their log-sum-exps, and gives the merged ones to the backward of each
/// part (arXiv:2310.01889).
struct AttentionForwardBackward {
  /// Both members of the result are set. Queries and keys may differ in length where it is not causal.
  std::function<AttentionOut(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionArgs&)>
      forward;
  /// {dq, dk, dv} of this part, where `out` and `lse` are those of the whole row of keys.
  std::function<std::array<Tensor, 3>(const Tensor& gradient, const Tensor& q, const Tensor& k,
                                      const Tensor& v, const Tensor& out, const Tensor& lse,
                                      const AttentionArgs&)>
      backward;
};

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

struct NormArgs {
  NormKind kind = NormKind::rmsnorm;
  double eps = 1e-5;
};

/// The operators of the paper, one slot each. B batch, S sequence, D model width, H query heads, G key/value
/// heads, K head width, F feed-forward width, V vocabulary.
struct Ops {
  explicit Ops(const Editor* editor);

  using Embedding = Slot<Tensor(const Tensor& tokens)>;         ///< (B, S) to (B, S, D)
  using Linear = Slot<Tensor(const Tensor& x)>;                 ///< (.., in) to (.., out)
  using Norm = Slot<Tensor(const Tensor& x, const NormArgs&)>;  ///< (B, S, D)
  /// {x + delta, norm of it}; where delta is undefined, as at the top of a block, {x, norm of it}
  using AddNorm = Slot<std::array<Tensor, 2>(const Tensor& x, const Tensor& delta, const NormArgs&)>;
  /// q (B, H, S, K), k (B, G, S, K): both with positions applied
  using Position = Slot<std::array<Tensor, 2>(const Tensor& q, const Tensor& k, const Batch&)>;
  /// q (B, H, S, K), k and v (B, G, S, K)
  using Attention =
      Slot<AttentionOut(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionArgs&)>;
  /// Replaced by who replaces `attention`, where its kernel can: the two are one.
  using HalvesOfAttention = Slot<AttentionForwardBackward()>;
  using Swiglu = Slot<Tensor(const Tensor& gate, const Tensor& up)>;  ///< (B, S, F)
  /// The resolved operators of one SwiGLU MLP, adapters and all.
  struct MlpParts {
    Linear::Fn gate, up, down;
    Swiglu::Fn swiglu;
  };
  /// down(swiglu(gate(x), up(x))). Its module holds the matrices of gate, up and down, which count as part of
  /// those linears: a base that is made of the parts keeps whatever was done to them.
  using Mlp = Slot<Tensor(const Tensor& x, const MlpParts&)>;
  /// The resolved operators of a head, adapters and all: `logits` is (B, S, D) to (B, S, V), or to the
  /// entries of the part where there is one.
  struct HeadParts {
    Linear::Fn logits;
    std::optional<VocabularyPart> part = {};
  };
  /// x (B, S, D), labels (B, S): the sum, not the mean, of the cross entropies, in fp32 or fp64. Its module
  /// holds the output matrix (V, D), which counts as part of the linear: see Mlp. A base that
  /// offers "vocabulary" heeds the part: labels are of the whole vocabulary, the loss is that of all of it
  /// and the same on every rank of the group, and the gradient of x is the part's.
  using HeadLoss = Slot<Tensor(const Tensor& x, const Tensor& labels, const HeadParts&)>;

  Embedding embedding;
  Linear linear;
  Norm norm;
  AddNorm add_norm;
  Position position;
  Attention attention;
  HalvesOfAttention attention_forward_backward;
  Swiglu swiglu;
  Mlp mlp;
  HeadLoss head_loss;

  std::vector<const SlotInfo*> all() const;
};
}  // namespace optrush
