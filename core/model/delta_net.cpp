// Gated DeltaNet (arXiv:2412.06464, section 3.4) as in Qwen3-Next: a short convolution of queries, keys and
// values; the gated delta rule with alpha = exp(-exp(A_log) softplus(a + dt_bias)) and beta = sigmoid(b); an
// RMSNorm of each head, gated by SiLU(z). Shapes: B batch, S sequence, D model width, G heads of keys, H
// heads of values, K width of a key, V width of a value.
#include "model/delta_net.h"

#include <ATen/Functions.h>

#include <functional>

#include "model/binder.h"
#include "model/declare.h"
#include "model/operators.h"

namespace optrush {
namespace {
/// What the matrices of the input make.
struct Projected {
  Tensor qkv_BSC;       ///< C = 2 G K + H V channels: queries, keys, values
  Tensor z_BSC;         ///< output gates (B, S, H V)
  Tensor b_BSH, a_BSH;  ///< gates of steps and decays
};
using InputProjection = std::function<Projected(const Tensor& x_BSD)>;

/// From two matrices whose rows are ordered by heads of keys.
Projected by_heads(const Tensor& qkvz, const Tensor& ba, const DeltaNet& shape) {
  const int64_t shared = shape.value_heads / shape.key_heads, values = shared * shape.value_dim;
  const auto parts = qkvz.unflatten(-1, {shape.key_heads, -1})
                         .split_with_sizes({shape.key_dim, shape.key_dim, values, values}, -1);
  const auto gates = ba.unflatten(-1, {shape.key_heads, 2 * shared}).chunk(2, -1);
  const auto flat = [](const Tensor& x) { return x.flatten(2); };
  return {at::cat({flat(parts[0]), flat(parts[1]), flat(parts[2])}, -1), flat(parts[3]), flat(gates[0]),
          flat(gates[1])};
}

struct DeltaNetOf {
  InputProjection projected;
  const Param *a_log, *dt_bias;
  Ops::Convolution::Fn convolution;
  Ops::DeltaRule::Fn rule;
  Ops::Norm::Fn norm;
  Ops::Swiglu::Fn gated;
  Ops::Linear::Fn out;
  DeltaNet shape;
  NormArgs norm_args;

  Tensor operator()(const Tensor& x_BSD, const Batch& batch) const {
    const auto [qkv_BSC, z_BSC, b_BSH, a_BSH] = projected(x_BSD);
    const Tensor mixed_BSC = convolution(qkv_BSC, batch.segments);
    const int64_t keys = shape.key_heads * shape.key_dim, values = shape.value_heads * shape.value_dim;
    const auto parts = mixed_BSC.split_with_sizes({keys, keys, values}, -1);
    const auto wide = [&](const Tensor& x) { return x.to(plain::accumulate_type(x_BSD)); };
    const Tensor rate_H = wide(a_log->value()).exp(), time_BSH = wide(a_BSH) + wide(dt_bias->value());
    const Tensor out_BHSV = rule({.q = plain::split_in_heads(parts[0], shape.key_dim),
                                  .k = plain::split_in_heads(parts[1], shape.key_dim),
                                  .v = plain::split_in_heads(parts[2], shape.value_dim),
                                  .log_decay = (-rate_H * at::softplus(time_BSH)).transpose(1, 2),
                                  .beta = at::sigmoid(wide(b_BSH)).transpose(1, 2),
                                  .documents = batch.segments.ids});
    return out(gated(z_BSC, norm(out_BHSV.transpose(1, 2), norm_args).flatten(2)));
  }
};

/// The logarithm of U(0.01, 16), as in transformers.
void log_of_uniform(Tensor& value, at::Generator& generator) { value.uniform_(0.01, 16, generator).log_(); }
}  // namespace

std::unique_ptr<Unit> declare_delta_net(const LlamaSpec& spec, Params& params, const std::string& path,
                                        int64_t layer, at::ScalarType dtype) {
  auto unit = make_unit(path, UnitRole::attention, layer);
  const DeltaNet shape = spec.delta_net;
  const int64_t heads = shape.value_heads, values = heads * shape.value_dim;
  const int64_t channels = 2 * shape.key_heads * shape.key_dim + values;
  const auto linear = [&](const char* name, int64_t out, int64_t in, std::vector<std::string> axes) {
    return &add_linear(
        *unit, params, path + name,
        {.shape = {out, in}, .axes = std::move(axes), .init = normal(spec.init_std), .dtype = dtype});
  };
  const auto input = [&](const char* name, int64_t out) {
    return linear(name, out, spec.dim, {"channels", "model"});
  };
  std::vector<const Module*> inputs;
  if (shape.joined)
    inputs = {input(".in_proj_qkvz", channels + values), input(".in_proj_ba", 2 * heads)};
  else
    inputs = {input(".in_proj_qkv", channels), input(".in_proj_z", values), input(".in_proj_b", heads),
              input(".in_proj_a", heads)};
  const Module& convolution = add_convolution(*unit, params, path + ".conv1d",
                                              {.shape = {channels, 1, shape.kernel},
                                               .axes = {"channels", "one", "kernel"},
                                               .init = normal(spec.init_std),
                                               .dtype = dtype});
  const auto gate = [&](const char* name, Initializer init) -> Param& {
    return params.add(vector_param(path + name, heads, "value_heads", std::move(init), dtype));
  };
  Param &a_log = gate(".A_log", log_of_uniform), &dt_bias = gate(".dt_bias", constant(1));
  Param& norm_weight =
      params.add(vector_param(path + ".norm.weight", shape.value_dim, "head", constant(1), dtype));
  const auto module = [&](const std::string& name, const char* role,
                          std::vector<Param*> used) -> const Module& {
    return unit->modules.emplace_back(Module{name, role, layer, std::move(used)});
  };
  const Module& rule = module(path, "delta_rule", {&a_log, &dt_bias});
  const Module& norm = module(path + ".norm", "norm", {&norm_weight});
  const Module& gated = module(path + ".act", "swiglu", {});
  const Module& out = *linear(".out_proj", spec.dim, values, {"model", "channels"});
  unit->build = [&, inputs, shape,
                 args = NormArgs{NormKind::rmsnorm, spec.norm_eps}](const Binder& bind) -> UnitFunction {
    std::vector<Ops::Linear::Fn> made;
    for (const Module* linear : inputs) made.push_back(bind.linear(*linear));
    const InputProjection projected = [made, shape](const Tensor& x) -> Projected {
      const Tensor first = made[0](x), second = made[1](x);
      if (shape.joined) return by_heads(first, second, shape);
      return {first, second, made[2](x), made[3](x)};
    };
    return DeltaNetOf{projected,
                      &a_log,
                      &dt_bias,
                      bind.convolution(convolution),
                      bind.delta_rule(rule),
                      bind.norm(norm),
                      bind.swiglu(gated),
                      bind.linear(out),
                      shape,
                      args};
  };
  return unit;
}

double state_flops(const DeltaNet& shape) {
  // A product of state and key, an update of rank 1, and a product of state and query. The backward takes
  // twice as many.
  const int64_t rule = 6 * shape.value_heads * shape.key_dim * shape.value_dim;
  const int64_t channels = 2 * shape.key_heads * shape.key_dim + shape.value_heads * shape.value_dim;
  return 3.0 * static_cast<double>(rule + 2 * shape.kernel * channels);
}
}  // namespace optrush
