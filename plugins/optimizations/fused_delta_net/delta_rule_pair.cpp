#include <ATen/Functions.h>
#include <ATen/Parallel.h>

#include <algorithm>

#include "kernel_parts/tensors.h"
#include "kernels.h"
#include "optrush/error.h"
#include "optrush/forecast.h"
#include "pairs.h"

namespace optrush::fused {
namespace {
/// The inputs as the kernel takes them.
struct RuleInputs {
  Tensor q, k, v, log_decay, beta, documents;

  explicit RuleInputs(const Tensors& in)
      : q(dense_rows(in[0])), k(dense_rows(in[1])), v(dense_rows(in[2])), log_decay(in[3]), beta(in[4]) {
    if (in.size() > 5) documents = in[5].to(at::kInt).contiguous();
    const auto wide = wide_type(v);
    const bool alike = q.sizes() == k.sizes() && q.scalar_type() == v.scalar_type() &&
                       k.scalar_type() == v.scalar_type() && log_decay.scalar_type() == wide &&
                       beta.scalar_type() == wide;
    if (!alike || v.size(1) % q.size(1) != 0)
      throw Error(
          "the fused delta rule needs queries, keys and values of one type, a number of value heads that is "
          "a "
          "multiple of the number of key heads, and decays and steps in " +
          std::string(c10::toString(wide)));
  }
  DeltaRule arguments() const {
    return {.type = type_of(v, "delta_rule"),
            .q = rows(q),
            .k = rows(k),
            .v = rows(v),
            .log_decay = rows(log_decay),
            .beta = rows(beta),
            .documents = documents.defined() ? documents.const_data_ptr<int32_t>() : nullptr,
            .key_heads = q.size(1),
            .shared = v.size(1) / q.size(1),
            .positions = v.size(2),
            .key_width = q.size(3),
            .value_width = v.size(3)};
  }
  int64_t groups() const { return v.numel() == 0 ? 0 : q.size(0) * q.size(1); }

  static Rows rows(const Tensor& x) { return {x.const_data_ptr(), x.stride(0), x.stride(1), x.stride(2)}; }
};

MutableRows written(const Tensor& x) { return {x.data_ptr(), x.stride(0), x.stride(1), x.stride(2)}; }

/// FLOPs of the products of the forward. The backward computes states and X again, and has these products
/// once for each of two factors.
double product_flops(const RuleInputs& in) {
  const auto number = [](int64_t n) { return static_cast<double>(n); };
  const double tokens = number(in.v.size(0) * in.v.size(2)),
               chunk = number(std::min(kDeltaRuleChunk, in.v.size(2)));
  const double keys = number(in.q.size(3)), values = number(in.v.size(3));
  const double of_keys = number(in.q.size(1)) * 2 * chunk * keys;
  const double of_values = number(in.v.size(1)) * (3 * keys * values + chunk * values);
  return 2 * tokens * (of_keys + of_values);
}

Tensor rule_forward(const RuleInputs& in) {
  const Tensor out = empty_heads(in.v);
  const NotedKernel kernel("delta_rule", bytes_of({in.q, in.k, in.v, in.log_decay, in.beta, out}));
  note_flops(product_flops(in));
  if (is_forecast(in.v)) return out;
  const DeltaRuleForward call{in.arguments(), written(out)};
  at::parallel_for(0, in.groups(), 1,
                   [&](int64_t begin, int64_t end) { cpu::delta_rule_forward(call, begin, end); });
  return out;
}

Tensors rule_backward(const RuleInputs& in, const Tensor& out_gradient_given) {
  const Tensor out_gradient = dense_rows(out_gradient_given);
  Tensors gradients;
  for (const Tensor* x : {&in.q, &in.k, &in.v, &in.log_decay, &in.beta}) gradients.push_back(empty_heads(*x));
  const NotedKernel kernel("delta_rule_backward",
                           bytes_of({in.q, in.k, in.v, in.log_decay, in.beta, out_gradient, gradients[0],
                                     gradients[1], gradients[2], gradients[3], gradients[4]}));
  note_flops(3 * product_flops(in));
  if (in.documents.defined()) gradients.emplace_back();
  if (is_forecast(in.v)) return gradients;
  const DeltaRuleBackward call{.in = in.arguments(),
                               .out_gradient = RuleInputs::rows(out_gradient),
                               .q = written(gradients[0]),
                               .k = written(gradients[1]),
                               .v = written(gradients[2]),
                               .log_decay = written(gradients[3]),
                               .beta = written(gradients[4])};
  at::parallel_for(0, in.groups(), 1,
                   [&](int64_t begin, int64_t end) { cpu::delta_rule_backward(call, begin, end); });
  return gradients;
}
}  // namespace

Differentiable delta_rule() {
  return {{.name = "fused_delta_rule",
           .forward = [](const Tensors& given) -> Differentiable::Result {
             return {{rule_forward(RuleInputs(given))}, given};
           },
           .backward = [](const Tensors& saved, const Tensors& g) -> Tensors {
             return rule_backward(RuleInputs(saved), g[0]);
           },
           .traits = {.trace = Trace::opaque, .capturable = true}}};
}
}  // namespace optrush::fused
