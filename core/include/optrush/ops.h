#pragma once
#include <array>
#include <optional>

#include "optrush/attention.h"
#include "optrush/slot.h"
#include "optrush/spec.h"
#include "optrush/vocabulary.h"

namespace optrush {
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
  using HalvesOfAttention = Slot<AttentionHalves()>;
  using Swiglu = Slot<Tensor(const Tensor& gate, const Tensor& up)>;  ///< (B, S, F)
  /// The resolved operators of one SwiGLU MLP, adapters and all.
  struct MlpParts {
    Linear::Fn gate, up, down;
    Swiglu::Fn swiglu;
  };
  /// down(swiglu(gate(x), up(x))). Its site holds the matrices of gate, up and down, which count as part of
  /// those linears: a base that is made of the parts keeps whatever was done to them.
  using Mlp = Slot<Tensor(const Tensor& x, const MlpParts&)>;
  /// The resolved operators of a head, adapters and all: `logits` is (B, S, D) to (B, S, V), or to the
  /// entries of the part where there is one.
  struct HeadParts {
    Linear::Fn logits;
    std::optional<VocabularyPart> part = {};
  };
  /// x (B, S, D), labels (B, S): the sum, not the mean, of the cross entropies, in fp32 or fp64. Its site
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
  HalvesOfAttention attention_halves;
  Swiglu swiglu;
  Mlp mlp;
  HeadLoss head_loss;

  std::vector<const SlotInfo*> all() const;
};
}  // namespace optrush
