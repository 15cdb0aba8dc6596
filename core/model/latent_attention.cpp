// Multi-head latent attention (DeepSeek V2, arXiv:2405.04434, section 2.1): keys and values of all heads are
// products of one vector of width C, and queries may be products of another. The last R dimensions of a
// query are rotated, and all heads share the rotated dimensions of a key. Shapes: B batch, S sequence, D
// model width, H heads, N dimensions of a head without position, R rotated ones, V width of a value.
#include "model/latent_attention.h"

#include <ATen/Functions.h>

#include <functional>

#include "model/binder.h"
#include "model/declare.h"
#include "model/operators.h"

namespace optrush {
namespace {
constexpr double kEps = 1e-6;  // a constant of transformers' class, not a field of its config.json

/// Moves pairs of neighbours into two halves, as the rotation takes them.
Tensor in_halves(const Tensor& x) { return x.unflatten(-1, {-1, 2}).transpose(-1, -2).flatten(-2); }

struct LatentAttentionOf {
  std::function<Tensor(const Tensor&x_BSD)> queries, latents;  ///< (B, S, H (N + R)), (B, S, C + R)
  Ops::Norm::Fn norm;
  Ops::Linear::Fn keys_and_values, wo;
  Ops::Position::Fn position;
  Ops::Attention::Fn attention;
  AttentionForwardBackward halves;
  AttentionArgs args;
  LatentAttention shape;
  int64_t head_dim;

  Tensor operator()(const Tensor& x_BSD, const Batch& batch) const {
    const int64_t rotated = shape.rope_dim, unrotated = head_dim - rotated;
    const auto query =
        plain::split_in_heads(queries(x_BSD), head_dim).split_with_sizes({unrotated, rotated}, -1);
    const auto latent = latents(x_BSD).split_with_sizes({shape.kv_rank, rotated}, -1);
    const Tensor made = keys_and_values(norm(latent[0], {NormKind::rmsnorm, kEps}));
    const auto key_value = plain::split_in_heads(made, unrotated + shape.value_dim)
                               .split_with_sizes({unrotated, shape.value_dim}, -1);
    const auto pairs = [&](const Tensor& x) { return shape.interleaved ? in_halves(x) : x; };
    const auto [q_BHSR, k_B1SR] = position(pairs(query[1]), pairs(latent[1].unsqueeze(1)), batch);
    const Tensor q = at::cat({query[0], q_BHSR}, -1);
    const Tensor k = at::cat({key_value[0], k_B1SR.expand({-1, key_value[0].size(1), -1, -1})}, -1);
    AttentionArgs of_batch = args;
    of_batch.segments = batch.segments;
    of_batch.halves = &halves;
    return wo(attention(q, k, key_value[1], of_batch).out.transpose(1, 2).flatten(2));
  }
};
}  // namespace

std::unique_ptr<Unit> declare_latent_attention(const LlamaSpec& spec, Params& params, const std::string& path,
                                               int64_t layer, at::ScalarType dtype) {
  auto unit = make_unit(path, UnitRole::attention, layer);
  const LatentAttention shape = spec.latent;
  const bool biased = spec.attention_bias == AttentionBias::all;
  const auto linear = [&](const char* name, int64_t out, int64_t in, std::vector<std::string> axes,
                          bool with_bias = false) -> const Module& {
    return add_linear(
        *unit, params, path + name,
        {.shape = {out, in}, .axes = std::move(axes), .init = normal(spec.init_std), .dtype = dtype},
        with_bias);
  };
  const auto norm = [&](const std::string& name, int64_t width) -> const Module& {
    Param& weight = params.add(vector_param(name + ".weight", width, "latent", constant(1), dtype));
    return unit->modules.emplace_back(Module{name, "norm", layer, {&weight}});
  };
  const int64_t width = spec.n_heads * spec.head_size(), values = spec.n_heads * shape.value_dim;
  const bool narrow = shape.q_rank != 0;
  const Module* q_a =
      narrow ? &linear(".q_a_proj", shape.q_rank, spec.dim, {"latent", "model"}, biased) : nullptr;
  const Module* q_norm = narrow ? &norm(path + ".q_a_layernorm", shape.q_rank) : nullptr;
  const Module& q = narrow ? linear(".q_b_proj", width, shape.q_rank, {"heads", "latent"})
                           : linear(".q_proj", width, spec.dim, {"heads", "model"});
  const Module& kv_a =
      linear(".kv_a_proj_with_mqa", shape.kv_rank + shape.rope_dim, spec.dim, {"latent", "model"}, biased);
  const Module& kv_norm = norm(path + ".kv_a_layernorm", shape.kv_rank);
  const Module& kv_b = linear(".kv_b_proj", width + values - spec.n_heads * shape.rope_dim, shape.kv_rank,
                              {"heads", "latent"});
  const Module& o = linear(".o_proj", spec.dim, values, {"model", "heads"}, biased);
  const Module& position = unit->modules.emplace_back(Module{path + ".rotary", "position", layer, {}});
  const Module& attend = unit->modules.emplace_back(Module{path, "attention", layer, {}});
  const AttentionArgs args{
      .scale = spec.score_scale(), .window = spec.window_of(layer), .soft_cap = spec.attention_soft_cap};
  unit->build = [&, q_a, q_norm, shape, args,
                 head_dim = spec.head_size()](const Binder& bind) -> UnitFunction {
    std::function<Tensor(const Tensor&)> queries = bind.linear(q);
    if (q_a != nullptr)
      queries = [made = std::move(queries), down = bind.linear(*q_a),
                 norm = bind.norm(*q_norm)](const Tensor& x) {
        return made(norm(down(x), {NormKind::rmsnorm, kEps}));
      };
    return LatentAttentionOf{std::move(queries),
                             bind.linear(kv_a),
                             bind.norm(kv_norm),
                             bind.linear(kv_b),
                             bind.linear(o),
                             bind.position(position),
                             bind.attention(attend),
                             bind.attention_forward_backward(attend),
                             args,
                             shape,
                             head_dim};
  };
  return unit;
}
}  // namespace optrush
