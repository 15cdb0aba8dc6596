// Mamba 2 (arXiv:2405.21060, section 7) as in Granite 4 and Nemotron-H: a short convolution of values x,
// inputs B and outputs C of the state; h_t = exp(dt A) h_(t-1) + dt B x^T and y_t = h_t^T C + D x with
// A = -exp(A_log) and dt = softplus(. + dt_bias); an RMSNorm of y SiLU(z). It is the rule of Ops::DeltaRule
// without correction. Shapes: B batch, S sequence, D model width, H heads, V width of a value, I = H V.
#include "model/mamba.h"

#include <ATen/Functions.h>

#include "model/binder.h"
#include "model/declare.h"
#include "model/operators.h"

namespace optrush {
namespace {
struct MambaOf {
  Ops::Linear::Fn in;
  const Param *a_log, *dt_bias, *skip;
  Ops::Convolution::Fn convolution;
  Ops::DeltaRule::Fn rule;
  Ops::Swiglu::Fn gated;
  Ops::Norm::Fn norm;
  Ops::Linear::Fn out;
  Mamba2 shape;
  NormArgs norm_args;

  Tensor operator()(const Tensor& x_BSD, const Batch& batch) const {
    const int64_t values = shape.values(), states = shape.groups * shape.state;
    const auto parts = in(x_BSD).split_with_sizes({values, shape.channels(), shape.heads}, -1);
    const Tensor mixed_BSC = convolution(parts[1], batch.segments);
    const auto mixed = mixed_BSC.split_with_sizes({values, states, states}, -1);
    const auto wide = [&](const Tensor& x) { return x.to(plain::accumulate_type(x_BSD)); };
    Tensor time_BHS = at::softplus(wide(parts[2]) + wide(dt_bias->value())).transpose(1, 2);
    if (shape.min_step != 0) time_BHS = time_BHS.clamp_min(shape.min_step);
    const Tensor v_BHSV = plain::split_in_heads(mixed[0], shape.head_dim);
    const Tensor out_BHSV = rule({.q = plain::split_in_heads(mixed[2], shape.state),
                                  .k = plain::split_in_heads(mixed[1], shape.state),
                                  .v = v_BHSV,
                                  .log_decay = -wide(a_log->value()).exp().unsqueeze(-1) * time_BHS,
                                  .beta = time_BHS,
                                  .documents = batch.segments.ids,
                                  .corrects = false});
    const Tensor sum_BHSV = out_BHSV + wide(skip->value()).view({-1, 1, 1}) * v_BHSV;
    const Tensor y_BSI = sum_BHSV.to(v_BHSV.scalar_type()).transpose(1, 2).flatten(2);
    return out(norm(gated(parts[0], y_BSI), norm_args));
  }
};

/// An RMSNorm of each group of the values, with one weight (I).
Ops::Norm::Fn norm_of_groups(const Param& weight, int64_t groups) {
  return [&weight, groups](const Tensor& x_BSI, const NormArgs& args) {
    const Tensor normed_BSI = plain::norm(x_BSI.unflatten(-1, {groups, -1}), {}, {}, args).flatten(-2);
    return normed_BSI * weight.value().to(normed_BSI.scalar_type());
  };
}

/// log(1), log(2), ..., as in transformers.
void log_of_numbers(Tensor& value, at::Generator&) {
  value.copy_(at::arange(1, value.numel() + 1, at::kDouble).log());
}
}  // namespace

std::unique_ptr<Unit> declare_mamba(const LlamaSpec& spec, Params& params, const std::string& path,
                                    int64_t layer, at::ScalarType dtype) {
  auto unit = make_unit(path, UnitRole::attention, layer);
  const Mamba2 shape = spec.mamba;
  const int64_t values = shape.values(), channels = shape.channels();
  const auto weight = [&](std::vector<int64_t> sizes, std::vector<std::string> axes) {
    return Param{
        .shape = std::move(sizes), .axes = std::move(axes), .init = normal(spec.init_std), .dtype = dtype};
  };
  const auto vector = [&](const char* name, int64_t size, const char* axis, Initializer init) -> Param& {
    return params.add(vector_param(path + name, size, axis, std::move(init), dtype));
  };
  const auto module = [&](const std::string& name, const char* role,
                          std::vector<Param*> used) -> const Module& {
    return unit->modules.emplace_back(Module{name, role, layer, std::move(used)});
  };
  const Module& in = add_linear(*unit, params, path + ".in_proj",
                                weight({values + channels + shape.heads, spec.dim}, {"channels", "model"}),
                                shape.projection_bias);
  const Module& convolution = add_convolution(
      *unit, params, path + ".conv1d", weight({channels, 1, shape.kernel}, {"channels", "one", "kernel"}),
      shape.convolution_bias);
  Param &a_log = vector(".A_log", shape.heads, "value_heads", log_of_numbers),
        &dt_bias = vector(".dt_bias", shape.heads, "value_heads", constant(1)),
        &skip = vector(".D", shape.heads, "value_heads", constant(1));
  const Module& rule = module(path, "delta_rule", {&a_log, &dt_bias, &skip});
  const Module& gated = module(path + ".act", "swiglu", {});
  const Module& norm = module(path + ".norm", shape.norm_by_group ? "group_norm" : "norm",
                              {&vector(".norm.weight", values, "channels", constant(1))});
  const Module& out = add_linear(*unit, params, path + ".out_proj",
                                 weight({spec.dim, values}, {"model", "channels"}), shape.projection_bias);
  unit->build = [&, shape,
                 args = NormArgs{NormKind::rmsnorm, spec.norm_eps}](const Binder& bind) -> UnitFunction {
    return MambaOf{bind.linear(in),
                   &a_log,
                   &dt_bias,
                   &skip,
                   bind.convolution(convolution),
                   bind.delta_rule(rule),
                   bind.swiglu(gated),
                   shape.norm_by_group ? norm_of_groups(*norm.params.front(), shape.groups) : bind.norm(norm),
                   bind.linear(out),
                   shape,
                   args};
  };
  return unit;
}

double state_flops(const Mamba2& shape) {
  // An update of rank 1, and a product of state and C. The backward takes twice as many.
  const int64_t rule = 4 * shape.state * shape.values();
  return 3.0 * static_cast<double>(rule + 2 * shape.kernel * shape.channels());
}
}  // namespace optrush
