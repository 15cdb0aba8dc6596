// Attention with grouped heads of keys and values (arXiv:2305.13245), and the variants of it that LlamaSpec
// describes. Shapes: B batch, S sequence, D model width, H query heads, G key/value heads, K head width.
#include "model/attention.h"

#include <ATen/Functions.h>

#include <functional>
#include <utility>

#include "model/binder.h"
#include "model/declare.h"
#include "model/operators.h"
#include "model/rotary.h"
#include "params/init.h"

namespace optrush {
namespace {
/// Maps the product of a matrix (B, S, H K) to heads (B, H, S, K).
using Heads = std::function<Tensor(const Tensor& product)>;

/// Without a norm, or with an RMSNorm of each head, or of all heads together.
Heads in_heads(int64_t head_dim, Ops::Norm::Fn norm, QkNorm of, const NormArgs& args) {
  return [=, norm = std::move(norm)](const Tensor& product) {
    const Tensor heads_BSHK =
        (of == QkNorm::whole ? norm(product, args) : product).unflatten(-1, {-1, head_dim});
    return (of == QkNorm::per_head ? norm(heads_BSHK, args) : heads_BSHK).transpose(1, 2);
  };
}

Tensor without_weight(const Tensor& x, const NormArgs& args) { return plain::norm(x, {}, {}, args); }

std::array<Tensor, 2> without_position(const Tensor& q, const Tensor& k, const Batch&) { return {q, k}; }

/// With the sink s of a head in the sum of the softmax: e^s beside the keys' e^lse makes each weight
/// e^lse / (e^lse + e^s) = sigmoid(lse - s) times as large.
Tensor beside_sinks(const AttentionOut& attended, const Param& sinks) {
  const Tensor kept_BHS =
      at::sigmoid(attended.lse - sinks.value().to(attended.lse.scalar_type()).unsqueeze(-1));
  return attended.out * kept_BHS.unsqueeze(-1).to(attended.out.scalar_type());
}

/// Splits the product of a matrix that makes a gate after the query of each head: the queries and the gate,
/// both (B, S, H K).
std::array<Tensor, 2> queries_and_gate(const Tensor& product, int64_t head_dim) {
  const auto parts_BSHK = product.unflatten(-1, {-1, 2 * head_dim}).chunk(2, -1);
  return {parts_BSHK[0].flatten(2), at::sigmoid(parts_BSHK[1].flatten(2))};
}

struct Attention {
  Ops::Linear::Fn wq, wk, wv, wo;  ///< wv null: values are the product of wk
  Heads q, k, v;
  bool gated;  ///< wq also makes a gate: queries_and_gate
  int64_t head_dim;
  Ops::Position::Fn position;
  Ops::Attention::Fn attention;
  AttentionForwardBackward halves;
  AttentionArgs args;
  const Param* sinks;  ///< (H); null: none

  Tensor operator()(const Tensor& x_BSD, const Batch& batch) const {
    Tensor keys = wk(x_BSD), queries = wq(x_BSD), gate_BSD;
    if (gated) {
      const auto both = queries_and_gate(queries, head_dim);
      queries = both[0], gate_BSD = both[1];
    }
    const Tensor keys_as_values = wv ? Tensor() : keys;
    // Rotations are new tensors, so the products are freed before attention.
    const auto [q_BHSK, k_BGSK] = position(q(std::exchange(queries, {})), k(std::exchange(keys, {})), batch);
    const Tensor v_BGSK = v(wv ? wv(x_BSD) : keys_as_values);
    AttentionArgs of_batch = args;
    of_batch.segments = batch.segments;
    of_batch.halves = &halves;
    const AttentionOut attended = attention(q_BHSK, k_BGSK, v_BGSK, of_batch);
    const Tensor out_BHSK = sinks == nullptr ? attended.out : beside_sinks(attended, *sinks);
    const Tensor out_BSD = out_BHSK.transpose(1, 2).flatten(2);
    return wo(gated ? out_BSD * gate_BSD : out_BSD);
  }
};

class AttentionDeclaration {
 public:
  AttentionDeclaration(const LlamaSpec& spec, Params& params, at::ScalarType dtype)
      : spec_(spec), params_(params), dtype_(dtype) {}

  std::unique_ptr<Unit> attention(const std::string& path, int64_t layer) {
    auto unit = make_unit(path, UnitRole::attention, layer);
    const int64_t head_dim = spec_.head_size(layer);
    const int64_t queries = spec_.n_heads * head_dim, keys = spec_.kv_heads(layer) * head_dim;
    const bool biased = spec_.attention_bias != AttentionBias::none, gated = spec_.attention_gate;
    const Module& q =
        linear(*unit, path + ".q_proj", gated ? 2 * queries : queries, spec_.dim, {"heads", "model"}, biased);
    const Module& k = linear(*unit, path + ".k_proj", keys, spec_.dim, {"kv_heads", "model"}, biased);
    const Module* v = spec_.keys_as_values(layer)
                          ? nullptr
                          : &linear(*unit, path + ".v_proj", keys, spec_.dim, {"kv_heads", "model"}, biased);
    const Module& o = linear(*unit, path + ".o_proj", spec_.dim, queries, {"model", "heads"},
                             spec_.attention_bias == AttentionBias::all);
    const Module* q_norm = head_norm(*unit, path + ".q_norm", head_dim, queries, "heads");
    const Module* k_norm = head_norm(*unit, path + ".k_norm", head_dim, keys, "kv_heads");
    const Module* position =
        spec_.rotates(layer) ? &unit->modules.emplace_back(Module{path + ".rotary", "position", layer, {}})
                             : nullptr;
    const Module& attend = unit->modules.emplace_back(Module{path, "attention", layer, {}});
    const Param* sinks = this->sinks(*unit);
    const AttentionArgs args{.scale = spec_.score_scale(layer),
                             .lse = sinks != nullptr,
                             .window = spec_.window_of(layer),
                             .alibi = spec_.position == PositionKind::alibi,
                             .soft_cap = spec_.attention_soft_cap};
    const auto position_of = [position, layer, spec = spec_](const Binder& bind) -> Ops::Position::Fn {
      return position == nullptr ? without_position : rotation_of(spec, layer, bind.position(*position));
    };
    unit->build = [&, v, q_norm, k_norm, sinks, position_of, head_dim, args, gated, of = spec_.qk_norm,
                   of_values = spec_.value_norm ? QkNorm::per_head : QkNorm::none,
                   norms = NormArgs{NormKind::rmsnorm, spec_.norm_eps}](const Binder& bind) -> UnitFunction {
      const auto heads = [&](const Module* norm) {
        return in_heads(head_dim, norm == nullptr ? Ops::Norm::Fn() : bind.norm(*norm), of, norms);
      };
      return Attention{bind.linear(q),
                       bind.linear(k),
                       v == nullptr ? Ops::Linear::Fn() : bind.linear(*v),
                       bind.linear(o),
                       heads(q_norm),
                       heads(k_norm),
                       in_heads(head_dim, without_weight, of_values, norms),
                       gated,
                       head_dim,
                       position_of(bind),
                       bind.attention(attend),
                       bind.attention_forward_backward(attend),
                       args,
                       sinks};
    };
    return unit;
  }

 private:
  /// Null if attention has no sinks.
  const Param* sinks(Unit& unit) {
    if (!spec_.attention_sinks) return nullptr;
    Param& sinks = params_.add(
        vector_param(unit.path + ".sinks", spec_.n_heads, "query_heads", normal(spec_.init_std), dtype_));
    unit.modules.emplace_back(Module{unit.path + ".sinks", "sinks", unit.layer, {&sinks}});
    return &sinks;
  }

  const Module& linear(Unit& unit, const std::string& path, int64_t out, int64_t in,
                       std::vector<std::string> axes, bool biased) {
    return add_linear(
        unit, params_, path,
        {.shape = {out, in}, .axes = std::move(axes), .init = normal(spec_.init_std), .dtype = dtype_},
        biased);
  }

  /// Null if queries and keys are not normalized.
  const Module* head_norm(Unit& unit, const std::string& path, int64_t head_dim, int64_t width,
                          const std::string& axis) {
    if (spec_.qk_norm == QkNorm::none) return nullptr;
    const bool per_head = spec_.qk_norm == QkNorm::per_head;
    Param& weight = params_.add(vector_param(path + ".weight", per_head ? head_dim : width,
                                             per_head ? "head" : axis, constant(1), dtype_));
    return &unit.modules.emplace_back(Module{path, "norm", unit.layer, {&weight}});
  }

  const LlamaSpec& spec_;
  Params& params_;
  at::ScalarType dtype_;
};
}  // namespace

std::unique_ptr<Unit> declare_attention(const LlamaSpec& spec, Params& params, const std::string& path,
                                        int64_t layer, at::ScalarType dtype) {
  return AttentionDeclaration(spec, params, dtype).attention(path, layer);
}
}  // namespace optrush
