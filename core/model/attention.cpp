// Attention with grouped heads of keys and values (arXiv:2305.13245), and the variants of it that LlamaSpec
// describes. Shapes: B batch, S sequence, D model width, H query heads, G key/value heads, K head width.
#include "model/attention.h"

#include <ATen/Functions.h>

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

Tensor flat(const Tensor& heads_BGSK) { return heads_BGSK.transpose(1, 2).flatten(2); }

struct Attention {
  Ops::Linear::Fn wq, wk, wv, wo;  ///< wk null: the input has keys and values; wv null: wk makes both
  Heads q, k, v;
  bool gated;  ///< wq also makes a gate
  int64_t head_dim;
  Ops::Position::Fn position;
  Ops::Attention::Fn attention;
  AttentionForwardBackward halves;
  AttentionArgs args;
  const Param* sinks;  ///< (H); null: none
  int64_t key_width;   ///< G K

  /// Keys, normalized and rotated, and values (B, S, 2 G K).
  Tensor keys_and_values(const Tensor& x_BSD, const Batch& batch) const {
    const Tensor keys = wk(x_BSD), k_BGSK = k(keys);
    const Tensor rotated_BGSK = position(k_BGSK.narrow(1, 0, 0), k_BGSK, batch)[1];
    return at::cat({flat(rotated_BGSK), flat(v(wv ? wv(x_BSD) : keys))}, -1);
  }

  Tensor operator()(const Tensor& x_BSD, const Batch& batch) const {
    if (!wk) return with_given_keys(x_BSD, batch);
    Tensor keys = wk(x_BSD);
    auto [queries, gate_BSD] = queries_and_gate(x_BSD);
    const Tensor keys_as_values = wv ? Tensor() : keys;
    // Rotations are new tensors, so the products are freed before attention.
    const auto [q_BHSK, k_BGSK] = position(q(std::exchange(queries, {})), k(std::exchange(keys, {})), batch);
    return attend(q_BHSK, k_BGSK, v(wv ? wv(x_BSD) : keys_as_values), gate_BSD, batch);
  }

 private:
  /// Both (B, S, H K). wq makes the gate of a head after its query.
  std::array<Tensor, 2> queries_and_gate(const Tensor& x_BSD) const {
    const Tensor product = wq(x_BSD);
    if (!gated) return {product, Tensor()};
    const auto parts_BSHK = product.unflatten(-1, {-1, 2 * head_dim}).chunk(2, -1);
    return {parts_BSHK[0].flatten(2), at::sigmoid(parts_BSHK[1].flatten(2))};
  }

  Tensor with_given_keys(const Tensor& given, const Batch& batch) const {
    const auto parts = given.split_with_sizes({given.size(-1) - 2 * key_width, key_width, key_width}, -1);
    auto [queries, gate_BSD] = queries_and_gate(parts[0].contiguous());
    const Tensor unrotated_BHSK = q(std::exchange(queries, {}));
    const Tensor q_BHSK = position(unrotated_BHSK, unrotated_BHSK.narrow(1, 0, 0), batch)[0];
    const auto heads = [&](const Tensor& part) {
      return plain::split_in_heads(part.contiguous().to(q_BHSK.scalar_type()), head_dim);
    };
    return attend(q_BHSK, heads(parts[1]), heads(parts[2]), gate_BSD, batch);
  }

  Tensor attend(const Tensor& q_BHSK, const Tensor& k_BGSK, const Tensor& v_BGSK, const Tensor& gate_BSD,
                const Batch& batch) const {
    AttentionArgs of_batch = args;
    of_batch.segments = batch.segments;
    of_batch.halves = &halves;
    const AttentionOut attended = attention(q_BHSK, k_BGSK, v_BGSK, of_batch);
    const Tensor out_BHSK = sinks == nullptr ? attended.out : beside_sinks(attended, *sinks);
    const Tensor out_BSD = flat(out_BHSK);
    return wo(gated ? out_BSD * gate_BSD : out_BSD);
  }
};

class AttentionDeclaration {
 public:
  AttentionDeclaration(const LlamaSpec& spec, Params& params, at::ScalarType dtype)
      : spec_(spec), params_(params), dtype_(dtype) {}

  /// Declares modules of a layer's attention in `unit`. `queries`: the modules of queries and output.
  /// `keys`: the modules of keys and values.
  std::function<Attention(const Binder&)> parts(Unit& unit, const std::string& path, bool queries,
                                                bool keys) {
    const int64_t layer = unit.layer, head_dim = spec_.head_size(layer);
    const int64_t query_width = spec_.n_heads * head_dim, key_width = spec_.kv_heads(layer) * head_dim;
    const bool gated = spec_.attention_gate;
    const auto in = [&](bool there, const char* name, int64_t rows, const char* axis) {
      return there ? &linear(unit, path + name, {rows, spec_.dim}, {axis, "model"},
                             spec_.attention_bias != AttentionBias::none)
                   : nullptr;
    };
    const Module* q = in(queries, ".q_proj", gated ? 2 * query_width : query_width, "heads");
    const Module* k = in(keys, ".k_proj", key_width, "kv_heads");
    const Module* v = in(keys && !spec_.keys_as_values(layer), ".v_proj", key_width, "kv_heads");
    const Module* o = queries ? &linear(unit, path + ".o_proj", {spec_.dim, query_width}, {"model", "heads"},
                                        spec_.attention_bias == AttentionBias::all)
                              : nullptr;
    const Module* q_norm =
        queries ? head_norm(unit, path + ".q_norm", head_dim, query_width, "heads") : nullptr;
    const Module* k_norm =
        keys ? head_norm(unit, path + ".k_norm", head_dim, key_width, "kv_heads") : nullptr;
    const auto module = [&](bool there, const std::string& name, const char* role) {
      return there ? &unit.modules.emplace_back(Module{name, role, layer, {}}) : nullptr;
    };
    const Module* position =
        module(spec_.rotates(layer), path + (queries ? ".rotary" : ".rotary_of_keys"), "position");
    const Module* attend = module(queries, path, "attention");
    const Param* sinks = queries ? this->sinks(unit) : nullptr;
    const AttentionArgs args{.scale = spec_.score_scale(layer),
                             .lse = sinks != nullptr,
                             .window = spec_.window_of(layer),
                             .alibi = spec_.position == PositionKind::alibi,
                             .soft_cap = spec_.attention_soft_cap};
    const auto position_of = [position, layer, spec = spec_](const Binder& bind) -> Ops::Position::Fn {
      return position == nullptr ? without_position : rotation_of(spec, layer, bind.position(*position));
    };
    return [=, of = spec_.qk_norm, of_values = spec_.value_norm ? QkNorm::per_head : QkNorm::none,
            norms = NormArgs{NormKind::rmsnorm, spec_.norm_eps}](const Binder& bind) {
      const auto linear = [&](const Module* module) {
        return module == nullptr ? Ops::Linear::Fn() : bind.linear(*module);
      };
      const auto heads = [&](const Module* norm) {
        return in_heads(head_dim, norm == nullptr ? Ops::Norm::Fn() : bind.norm(*norm), of, norms);
      };
      return Attention{
          linear(q),
          linear(k),
          linear(v),
          linear(o),
          heads(q_norm),
          heads(k_norm),
          in_heads(head_dim, without_weight, of_values, norms),
          gated,
          head_dim,
          position_of(bind),
          attend == nullptr ? Ops::Attention::Fn() : bind.attention(*attend),
          attend == nullptr ? AttentionForwardBackward() : bind.attention_forward_backward(*attend),
          args,
          sinks,
          key_width};
    };
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

  const Module& linear(Unit& unit, const std::string& path, std::vector<int64_t> shape,
                       std::vector<std::string> axes, bool biased) {
    return add_linear(
        unit, params_, path,
        {.shape = std::move(shape), .axes = std::move(axes), .init = normal(spec_.init_std), .dtype = dtype_},
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
  auto unit = make_unit(path, UnitRole::attention, layer);
  AttentionDeclaration declare(spec, params, dtype);
  unit->build = declare.parts(*unit, path, /*queries=*/true, /*keys=*/!spec.shares_kv(layer));
  return unit;
}

std::function<UnitFunction(const Binder&)> declare_shared_keys(const LlamaSpec& spec, Params& params,
                                                               Unit& block, at::ScalarType dtype) {
  AttentionDeclaration declare(spec, params, dtype);
  return [parts = declare.parts(block, block.path + ".self_attn", /*queries=*/false, /*keys=*/true)](
             const Binder& bind) -> UnitFunction {
    return [keys = parts(bind)](const Tensor& x_BSD, const Batch& batch) {
      return keys.keys_and_values(x_BSD, batch);
    };
  };
}
}  // namespace optrush
