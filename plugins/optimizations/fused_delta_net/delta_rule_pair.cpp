#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <optional>

#include "gpu/workspace.h"
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
          "a multiple of the number of key heads, and decays and steps in " +
          std::string(c10::toString(wide)));
    const int64_t widest = gpu::widest_keys(type_of(v, "delta_rule"));
    if (on_gpu() && q.size(3) > widest)
      throw Error("the fused delta rule supports keys of up to " + std::to_string(widest) + " numbers in " +
                      c10::toString(v.scalar_type()) + " on a GPU, not of " + std::to_string(q.size(3)),
                  R"(remove "delta_rule" from the kernels of fused_delta_net)");
  }
  DeltaRule arguments() const {
    return {.type = type_of(v, "delta_rule"),
            .q = rows(q),
            .k = rows(k),
            .v = rows(v),
            .log_decay = rows(log_decay),
            .beta = rows(beta),
            .documents = documents.defined() ? documents.const_data_ptr<int32_t>() : nullptr,
            .batch = q.size(0),
            .key_heads = q.size(1),
            .shared = v.size(1) / q.size(1),
            .positions = v.size(2),
            .key_width = q.size(3),
            .value_width = v.size(3)};
  }
  bool on_gpu() const { return form_of(v) == at::kCUDA; }
  int64_t groups() const { return v.numel() == 0 ? 0 : q.size(0) * q.size(1); }

  static Rows rows(const Tensor& x) { return {x.const_data_ptr(), x.stride(0), x.stride(1), x.stride(2)}; }
};

MutableRows written(const Tensor& x) { return {x.data_ptr(), x.stride(0), x.stride(1), x.stride(2)}; }

/// FLOPs of the products of the forward and of the backward, which computes states and X again.
struct ProductFlops {
  double forward, backward;
};
ProductFlops product_flops(const RuleInputs& in) {
  const auto number = [](int64_t n) { return static_cast<double>(n); };
  const double tokens = number(in.v.size(0) * in.v.size(2)), key_heads = number(in.q.size(1)),
               heads = number(in.v.size(1)), keys = number(in.q.size(3)), values = number(in.v.size(3));
  const int64_t longest = in.on_gpu() ? gpu::delta_rule_chunk(type_of(in.v, "delta_rule")) : kDeltaRuleChunk;
  const double chunk = number(std::min(longest, in.v.size(2)));
  if (in.on_gpu()) {  // Q K^T and K K^T for each head of values, and products with the inverse
    const double states = heads * (2 * chunk * keys + 2 * keys * values + chunk * values);
    const double forward = states + heads * (keys * values + chunk * values);
    const double backward =
        states + heads * (6 * keys * values + 4 * chunk * values) + key_heads * 6 * chunk * keys;
    return {2 * tokens * forward, 2 * tokens * backward};
  }
  const double forward =
      2 * tokens * (key_heads * 2 * chunk * keys + heads * (3 * keys * values + chunk * values));
  return {forward, 3 * forward};  // once more for each of two factors
}

/// Of the GPU kernels: each piece is written and read once. Undefined on a CPU.
double workspace_bytes(const std::optional<gpu::Workspace>& workspace) {
  return workspace ? 2 * workspace->bytes() : 0;
}

Tensor rule_forward(const RuleInputs& in) {
  const Tensor out = empty_heads(in.v);
  std::optional<gpu::Workspace> workspace;
  if (in.on_gpu()) workspace = gpu::Workspace::of_forward(in.q, in.v);
  const NotedKernel kernel(
      "delta_rule", bytes_of({in.q, in.k, in.v, in.log_decay, in.beta, out}) + workspace_bytes(workspace),
      in.on_gpu() ? gpu::kForwardLaunches : 1);
  note_flops(product_flops(in).forward);
  if (is_forecast(in.v)) return out;
  const DeltaRuleForward call{in.arguments(), written(out)};
  if (workspace) {
    const c10::DeviceGuard guard(in.v.device());
    if (in.groups() > 0) gpu::delta_rule_forward(call, workspace->addresses());
    return out;
  }
  at::parallel_for(0, in.groups(), 1,
                   [&](int64_t begin, int64_t end) { cpu::delta_rule_forward(call, begin, end); });
  return out;
}

Tensors rule_backward(const RuleInputs& in, const Tensor& out_gradient_given) {
  const Tensor out_gradient = dense_rows(out_gradient_given);
  Tensors gradients;
  for (const Tensor* x : {&in.q, &in.k, &in.v, &in.log_decay, &in.beta}) gradients.push_back(empty_heads(*x));
  std::optional<gpu::Workspace> workspace;
  if (in.on_gpu()) workspace = gpu::Workspace::of_backward(in.q, in.v);
  const NotedKernel kernel("delta_rule_backward",
                           bytes_of({in.q, in.k, in.v, in.log_decay, in.beta, out_gradient, gradients[0],
                                     gradients[1], gradients[2], gradients[3], gradients[4]}) +
                               workspace_bytes(workspace),
                           in.on_gpu() ? gpu::kBackwardLaunches : 1);
  note_flops(product_flops(in).backward);
  if (in.documents.defined()) gradients.emplace_back();
  if (is_forecast(in.v)) return gradients;
  const DeltaRuleBackward call{.in = in.arguments(),
                               .out_gradient = RuleInputs::rows(out_gradient),
                               .q = written(gradients[0]),
                               .k = written(gradients[1]),
                               .v = written(gradients[2]),
                               .log_decay = written(gradients[3]),
                               .beta = written(gradients[4])};
  if (workspace) {
    const c10::DeviceGuard guard(in.v.device());
    if (in.groups() > 0) gpu::delta_rule_backward(call, workspace->addresses());
    return gradients;
  }
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
