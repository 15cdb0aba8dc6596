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
  double scale = 1;  ///< factor of the scores, before the softmax
  /// Also return the log-sum-exp of the scores, with its derivative; needs a base that offers feature::lse.
  bool lse = false;
  Segments segments = {};  ///< of the batch; needs a base that offers feature::segments
  /// A query sees its own position and window - 1 before it; 0: all. Needs feature::window.
  int64_t window = 0;
  /// Adds -slope x distance to the scores (arXiv:2108.12409). Needs a base that offers feature::alibi.
  bool alibi = false;
  /// Scores become soft_cap tanh(score / soft_cap) before the mask; 0: no cap. Needs feature::soft_cap.
  double soft_cap = 0;
  /// The same kernel as separate forward and backward, resolved at this module. Null if not available.
  const AttentionForwardBackward* halves = nullptr;

  /// Whether the window hides a key in a sequence of `positions`.
  bool has_window(int64_t positions) const { return window != 0 && window < positions; }
};

struct AttentionOut {
  Tensor out;  ///< (B, H, S, K)
  /// (B, H, S) fp32, or fp64 for fp64 inputs; natural logarithm; defined if requested. It is differentiable:
  /// its gradient is a summand of the gradient of the scores, P (dP - rowsum(dO O) + dlse).
  Tensor lse;
};

/// Attention without autograd, as separate forward and backward. Ring attention (arXiv:2310.01889) merges the
/// outputs of parts of the keys by their log-sum-exps, and passes the merged ones to each backward.
struct AttentionForwardBackward {
  /// Both members of the result are defined. Without causality, queries and keys may differ in length.
  std::function<AttentionOut(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionArgs&)>
      forward;
  /// {dq, dk, dv} of this part; `out` and `lse` belong to all keys. An undefined `lse_gradient` is none.
  std::function<std::array<Tensor, 3>(const Tensor& gradient, const Tensor& q, const Tensor& k,
                                      const Tensor& v, const Tensor& out, const Tensor& lse,
                                      const Tensor& lse_gradient, const AttentionArgs&)>
      backward;
};

/// Inputs of the gated delta rule. G heads of keys, H heads of values, K width of a key, V width of a value.
struct DeltaRuleInputs {
  Tensor q, k;             ///< (B, G, S, K), not normalized
  Tensor v;                ///< (B, H, S, V)
  Tensor log_decay, beta;  ///< (B, H, S) in fp32, or fp64 for fp64 models: log of alpha, and the step size
  Tensor documents = {};   ///< (B, S): Segments::ids; undefined: each row is one document
  /// False: a state space model, S_t = alpha_t S_(t-1) + beta_t k_t v_t^T and o_t = S_t^T q_t with queries
  /// and keys as they are (arXiv:2405.21060). Needs a base that offers feature::uncorrected.
  bool corrects = true;
};

/// The choice of experts. T tokens, E experts, K experts per token.
struct RoutingArgs {
  int64_t per_token = 0;  ///< K
  bool normalize = true;  ///< whether the weights of a token sum to 1, before the factor of `form`
  Router form = {};
  Tensor bias = {};  ///< (E): added to the scores for the choice, not for the weights; undefined: none
};
struct Routed {
  Tensor weights;  ///< (T, K) in fp32, or fp64 for fp64 logits
  Tensor experts;  ///< (T, K) int64
};

/// The part of the vocabulary whose logits this rank computes, if ranks split it.
struct VocabularyPart {
  int64_t begin = 0, end = 0;
  int64_t widest = 0;      ///< rows of the largest part, so that ranks can chunk their work identically
  Group* group = nullptr;  ///< the ranks with the other parts
};

/// Values over the whole vocabulary that a cross entropy needs, of rows split over ranks (arXiv:1909.08053).
struct VocabularySums {
  Tensor lse;       ///< (rows): log-sum-exp over the whole vocabulary
  Tensor of_label;  ///< (rows): logit of the row's label; 0 if it is ignored
};
/// logits (rows, end - begin) in fp32 or fp64; labels (rows) of the whole vocabulary, with -100 ignored.
/// Needs one all-reduce of (ranks + 1) x rows numbers, which a tracer records as an operator.
VocabularySums over_vocabulary(const Tensor& logits, const Tensor& labels, const VocabularyPart&);
/// The gradient of the sum of lse - of_label for the logits: softmax - one-hot; 0 for an ignored label.
Tensor gradient_of_part(const Tensor& logits, const Tensor& labels, const Tensor& lse, const VocabularyPart&);

struct NormArgs {
  NormKind kind = NormKind::rmsnorm;
  double eps = 1e-5;
};

/// The operators of the paper, one slot each. B batch, S sequence, D model width, H query heads, G key/value
/// heads, K head width, F feed-forward width, V vocabulary.
struct Ops {
  explicit Ops(const Editor* editor);

  using Embedding = Slot<Tensor(const Tensor& tokens)>;  ///< (B, S) to (B, S, D)
  using Router = Slot<Tensor(const Tensor& x)>;          ///< (T, D) to the logits of the experts (T, E)
  /// The logits of the experts (T, E) to the experts of each token and their weights. Without a shared order
  /// of the experts of a token, sums over them differ in rounding: the plain base orders them by score.
  using Routing = Slot<Routed(const Tensor& logits, const RoutingArgs&)>;
  /// The experts of a mixture: rows (N, D), sorted by expert, to (N, D). `counts` (E) in int64: rows of each
  /// expert, on the device of the rows. A forecast assumes that all experts get equally many rows.
  using Experts = Slot<Tensor(const Tensor& rows, const Tensor& counts, const Batch&)>;
  using Linear = Slot<Tensor(const Tensor& x)>;  ///< (.., in) to (.., out); the model adds the bias, if any
  using Norm = Slot<Tensor(const Tensor& x, const NormArgs&)>;  ///< (B, S, D), or heads (B, S, H, K)
  /// {x + delta, norm of it}; if delta is undefined, as at the top of a block, {x, norm of it}
  using AddNorm = Slot<std::array<Tensor, 2>(const Tensor& x, const Tensor& delta, const NormArgs&)>;
  /// q (B, H, S, K), k (B, G, S, K): both with positions applied
  using Position = Slot<std::array<Tensor, 2>(const Tensor& q, const Tensor& k, const Batch&)>;
  /// q (B, H, S, K), k and v (B, G, S, K). With feature::value_width, values may have another width.
  using Attention =
      Slot<AttentionOut(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionArgs&)>;
  /// A plugin that replaces `attention` also replaces this slot, if its kernel supports it.
  using HalvesOfAttention = Slot<AttentionForwardBackward()>;
  /// x (B, S, C) to SiLU of a causal convolution of each channel, which starts anew with each document. Its
  /// module has the weight (C, 1, positions) and, with feature::biases, may have a bias (C).
  using Convolution = Slot<Tensor(const Tensor& x, const Segments&)>;
  /// The gated delta rule (arXiv:2412.06464, equation 10), with queries and keys of length 1 and queries
  /// times K^(-1/2): S_t = alpha_t (I - beta_t k_t k_t^T) S_(t-1) + beta_t k_t v_t^T and o_t = S_t^T q_t,
  /// with S = 0 before each document. Computed in fp32 or wider. Returns (B, H, S, V) in v's type.
  using DeltaRule = Slot<Tensor(const DeltaRuleInputs&)>;
  using Swiglu = Slot<Tensor(const Tensor& gate, const Tensor& up)>;  ///< (B, S, F): SiLU(gate) * up
  /// (B, S, F): GELU(gate) * up, or another gated unit of LlamaSpec::activation
  using Geglu = Slot<Tensor(const Tensor& gate, const Tensor& up)>;
  /// The resolved operators of one MLP, including adapters.
  struct MlpParts {
    Linear::Fn gate, up, down;                                        ///< gate null: the MLP has none
    std::function<Tensor(const Tensor& gate, const Tensor& up)> glu;  ///< swiglu, or geglu
  };
  /// down(glu(gate(x), up(x))). Its module has the matrices of gate, up and down, which count as part of
  /// these linears: a base that calls the parts keeps their edits. feature::geglu: activations other than
  /// SiLU. feature::ungated: an MLP without a gate, whose `glu` ignores the undefined first tensor.
  /// feature::biases: an MLP with biases.
  using Mlp = Slot<Tensor(const Tensor& x, const MlpParts&)>;
  /// The resolved operators of a head, including adapters: `logits` maps (B, S, D) to (B, S, V), or to the
  /// entries of `part`, and applies the soft cap.
  struct HeadParts {
    Linear::Fn logits;
    std::optional<VocabularyPart> part = {};
    double soft_cap = 0;  ///< a logit is soft_cap tanh(product / soft_cap); 0: the product
  };
  /// x (B, S, D): the sum, not the mean, of the cross entropies of batch.labels, in fp32 or fp64. Its module
  /// has the output matrix (V, D), which counts as part of the linear: see Mlp. A base that offers
  /// feature::vocabulary supports `part`: labels refer to the whole vocabulary, the loss covers all of it and
  /// is equal on every rank of the group, and the gradient of x is the gradient of this part. A base that
  /// offers feature::soft_cap calls `logits` or applies the cap itself.
  using HeadLoss = Slot<Tensor(const Tensor& x, const Batch& batch, const HeadParts&)>;

  Embedding embedding;
  Router router;
  Routing routing;
  Experts experts;
  Linear linear;
  Norm norm;
  AddNorm add_norm;
  Position position;
  Attention attention;
  HalvesOfAttention attention_forward_backward;
  Convolution convolution;
  DeltaRule delta_rule;
  Swiglu swiglu;
  Geglu geglu;
  Mlp mlp;
  HeadLoss head_loss;

  std::vector<const SlotInfo*> all() const;
};
}  // namespace optrush
