#include "fused_kernel.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "documents.h"
#include "optrush/error.h"
#include "optrush/forecast.h"
#include "window.h"

namespace optrush::flash {
namespace {
/// The memory-efficient kernel reads the lse in blocks of so many rows.
constexpr int64_t kRowsOfLse = 32;

/// In memory as (B, S, H, K). The kernels write this order, and some require it.
Tensor by_rows(const Tensor& x) { return x.transpose(1, 2).contiguous().transpose(1, 2); }

/// A forecast has no values, so it does not know the lengths of documents. A row counts as one document,
/// which keeps as many bytes.
bool by_document(const Tensor& q, const AttentionArgs& args) {
  return args.segments.defined() && !is_forecast(q);
}

void check_type_of_window(const Tensor& q) {
  const auto type = q.scalar_type();
  if (type != at::kBFloat16 && type != at::kHalf)
    throw Error("the fused attention kernel has no sliding window in " + std::string(c10::toString(type)) +
                    " on a GPU",
                "stack mixed_precision or bf16_weights, or remove flash_attention from the stack");
}

void check_lse_has_derivative(const AttentionArgs& args) {
  if (args.soft_cap != 0)
    throw Error("the log-sum-exp of scores with a soft cap has no derivative in cuDNN's kernel",
                "remove flash_attention from the stack");
}

/// LibTorch counts the FLOPs of its own operators only.
void note_attention(bool backward, const Tensor& q, const Tensor& k, const Tensor& v,
                    const AttentionArgs& args) {
  if (args.segments.defined())
    documents::note_flops_on_gpu(backward, q, v, args);
  else
    note_flops(flops_of_rows(backward, q, k, v, args));
}

/// Computed by FlashAttention, even if other layers run another kernel, because LibTorch's other kernels have
/// no window.
AttentionOut window_on_gpu(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionArgs& args) {
  check_type_of_window(q);
  const auto [left, right] = window_of(args);
  const auto results =
      at::_flash_attention_forward(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), {}, {}, q.size(2),
                                   k.size(2), 0.0, args.causal, false, args.scale, left, right);
  return {std::get<0>(results).transpose(1, 2), std::get<1>(results)};
}

std::array<Tensor, 3> window_on_gpu(const Tensor& gradient, const Tensor& q, const Tensor& k, const Tensor& v,
                                    const Tensor& out, const Tensor& lse, const AttentionArgs& args) {
  const auto [left, right] = window_of(args);
  const auto [dq, dk, dv] = at::_flash_attention_backward(
      gradient.transpose(1, 2), q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2),
      out.transpose(1, 2).contiguous(), lse.contiguous(), {}, {}, q.size(2), k.size(2), 0.0, args.causal,
      at::empty({2}, q.options().dtype(at::kUInt64)), at::empty({}, q.options().dtype(at::kUInt64)),
      args.scale, left, right);
  return {dq.transpose(1, 2), dk.transpose(1, 2), dv.transpose(1, 2)};
}
}  // namespace

std::optional<Tensor> FusedKernel::window_mask(const Tensor& q, const Tensor& k, const AttentionArgs& args) {
  if (!args.has_window(k.size(2))) return {};
  const int64_t queries = q.size(2), keys = k.size(2), longest = std::max(queries, keys);
  Tensor& mask = window_masks_[{args.window, args.causal, q.scalar_type()}];
  if (!mask.defined() || mask.size(0) < longest || mask.device() != q.device()) {
    const double never = -std::numeric_limits<double>::infinity();
    const Tensor hidden = at::full({longest, longest}, never, q.options());
    mask = hidden.tril(-args.window);
    if (args.causal) mask = mask + hidden.triu(1);
  }
  return mask.narrow(0, 0, queries).narrow(1, 0, keys);
}

/// A forecast runs operators of LibTorch: they have sizes without values.
bool FusedKernel::runs_graphs(const Tensor& q, const Tensor& k, const Tensor& v,
                              const AttentionArgs& args) const {
  return graphs_ && !is_forecast(q) && graphs_->takes(k, v, args);
}

Differentiable FusedKernel::by_graphs(const AttentionArgs& args) const {
  const auto forward = [graphs = graphs_, args](const Tensors& inputs) -> Differentiable::Result {
    const Tensor &q = inputs[0], &k = inputs[1], &v = inputs[2];
    note_attention(/*backward=*/false, q, k, v, args);
    const AttentionOut made = graphs->forward(q, k, v, args);
    return {{made.out, made.lse}, {q, k, v, made.out, made.lse}};
  };
  const auto backward = [graphs = graphs_, args](const Tensors& saved, const Tensors& gradients) -> Tensors {
    if (!gradients[0].defined()) return {{}, {}, {}};
    note_attention(/*backward=*/true, saved[0], saved[1], saved[2], args);
    const auto made = graphs->backward(gradients[0], saved[0], saved[1], saved[2], saved[3], saved[4], args);
    return {made.begin(), made.end()};
  };
  return Differentiable::Definition{.name = "cudnn_attention", .forward = forward, .backward = backward};
}

void FusedKernel::check_width(const Tensor& q) const {
  if ((kernel_ == Kernel::flash || kernel_ == Kernel::cudnn) && q.size(-1) % 8 != 0)
    throw Error(
        "the fused attention kernel returns no log-sum-exp for head width " + std::to_string(q.size(-1)),
        "use a head width that is a multiple of 8, or kernel = \"efficient\"");
}

void FusedKernel::check_taken(const Tensor& q, const Tensor& k, const Tensor& v,
                              const AttentionArgs& args) const {
  const bool capped = args.soft_cap != 0;
  if (capped && args.segments.defined())  // no GPU has a kernel, so a forecast also refuses
    throw Error("graphs of cuDNN have no soft caps of scores in packed documents",
                "remove packing or flash_attention from the stack");
  if (is_forecast(q) || (!capped && v.size(3) == k.size(3))) return;
  const std::string what = capped ? "soft caps of scores" : "values of another width than keys";
  throw Error("cuDNN has no kernel with " + what + " on this GPU", "remove flash_attention from the stack");
}

bool FusedKernel::runs_own(const Tensor& q, const Tensor& k, const Tensor& v, AttentionArgs args) const {
  args.segments = {};
  return kernel_ == Kernel::cpu && !tracing() && cpu::takes(q, k, v, args);
}

/// LibTorch's kernels have no derivative of the lse. With weights P, d lse / d scores = P. So the gradient of
/// q is scale dlse (P k), which is attention with k as its values, and the gradient of k is scale P^T (dlse
/// q), which is the gradient of these values.
AttentionOut FusedKernel::forward(const Tensor& q, const Tensor& k, const Tensor& v,
                                  const AttentionArgs& args) {
  AttentionOut made = forward_of(q, k, v, args);
  const bool derived = at::GradMode::is_enabled() && (q.requires_grad() || k.requires_grad());
  if (!args.lse || !derived || (runs_own(q, k, v, args) && !args.segments.defined())) return made;
  check_lse_has_derivative(args);
  const Tensor mean = forward_of(q.detach(), k.detach(), k, args).out;
  const auto type = made.lse.scalar_type();
  const auto product = [&](const Tensor& queries, const Tensor& keys) {
    return (queries.to(type) * keys.to(type)).sum(-1) * args.scale;
  };
  const Tensor linear = product(q, mean.detach()) + product(q.detach(), mean);
  made.lse = made.lse.detach() + (linear - linear.detach());
  return made;
}

std::array<Tensor, 3> FusedKernel::backward(const Tensor& gradient, const Tensor& q, const Tensor& k,
                                            const Tensor& v, const Tensor& out, const Tensor& lse,
                                            const Tensor& lse_gradient, const AttentionArgs& args) {
  if (runs_own(q, k, v, args) && !args.segments.defined())
    return cpu::backward(gradient, q, k, v, out, lse, lse_gradient, {args.scale, args.window});
  auto gradients = backward_of(gradient, q, k, v, out, lse, args);
  if (!lse_gradient.defined()) return gradients;
  check_lse_has_derivative(args);
  const auto type = lse.scalar_type();
  const auto scaled = [&](const Tensor& factor, const Tensor& x) {
    return (factor.to(type).unsqueeze(-1) * x.to(type)).to(q.scalar_type());
  };
  // P of the lse over all keys, and not only over those of this part
  const auto [mean, lse_of_part] = forward_of(q, k, k, args);
  const Tensor of_part = at::exp(lse_of_part.to(type) - lse) * lse_gradient.to(type) * args.scale;
  gradients[0] = gradients[0] + scaled(of_part, mean);
  const Tensor of_values = scaled(lse_gradient.to(type) * args.scale, q);
  gradients[1] = gradients[1] + backward_of(of_values, q, k, k, out, lse, args)[2];
  return gradients;
}

AttentionOut FusedKernel::forward_of(const Tensor& q, const Tensor& k, const Tensor& v,
                                     const AttentionArgs& args) {
  check_width(q);
  if (runs_graphs(q, k, v, args)) {
    const Tensors made = call(by_graphs(args), {q, k, v});
    return {made[0], made[1]};
  }
  check_taken(q, k, v, args);
  if (!by_document(q, args)) {
    if (args.has_window(k.size(2)) && kernel_ != Kernel::cpu) return window_on_gpu(q, k, v, args);
    return forward_whole(q, k, v, args);
  }
  if (kernel_ != Kernel::cpu) return documents::forward_on_gpu(kernel_ == Kernel::efficient, q, k, v, args);
  return documents::forward_each(q, k, v, args, [&](const Tensor& q, const Tensor& k, const Tensor& v) {
    return forward_whole(q, k, v, args);
  });
}

std::array<Tensor, 3> FusedKernel::backward_of(const Tensor& gradient, const Tensor& q, const Tensor& k,
                                               const Tensor& v, const Tensor& out, const Tensor& lse,
                                               const AttentionArgs& args) {
  check_width(q);
  if (runs_graphs(q, k, v, args)) {
    note_attention(/*backward=*/true, q, k, v, args);
    return graphs_->backward(gradient, q, k, v, out, lse, args);
  }
  if (!by_document(q, args)) {
    if (args.has_window(k.size(2)) && kernel_ != Kernel::cpu)
      return window_on_gpu(gradient, q, k, v, out, lse, args);
    return backward_whole(gradient, q, k, v, out, lse, args);
  }
  if (kernel_ != Kernel::cpu)
    return documents::backward_on_gpu(kernel_ == Kernel::efficient, gradient, q, k, v, out, lse, args);
  return documents::backward_each(
      gradient, q, k, v, out, lse, args,
      [&](const Tensor& gradient, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& out,
          const Tensor& lse) { return backward_whole(gradient, q, k, v, out, lse, args); });
}

AttentionOut FusedKernel::forward_whole(const Tensor& q, const Tensor& k, const Tensor& v,
                                        const AttentionArgs& args) {
  switch (kernel_) {
    case Kernel::cpu: {
      if (runs_own(q, k, v, args)) {
        const Tensors made = call(own_({args.scale, args.window}), {q, k, v});
        return {made[0], made[1]};
      }
      const auto mask = window_mask(q, k, args);
      const auto [out, lse] = at::_scaled_dot_product_flash_attention_for_cpu(
          q, k, v, 0.0, args.causal && !mask, mask, args.scale);
      return {out, lse};
    }
    case Kernel::flash: {
      const auto results =
          at::_scaled_dot_product_flash_attention(q, k, v, 0.0, args.causal, false, args.scale);
      return {std::get<0>(results), std::get<1>(results)};
    }
    case Kernel::efficient: {
      const auto results = at::_scaled_dot_product_efficient_attention(
          q, k, v, {}, /*compute_log_sumexp=*/true, 0.0, args.causal, args.scale);
      return {std::get<0>(results), std::get<1>(results).narrow(2, 0, q.size(2))};
    }
    case Kernel::cudnn: {
      const auto results = at::_scaled_dot_product_cudnn_attention(q, k, v, {}, /*compute_log_sumexp=*/true,
                                                                   0.0, args.causal, false, args.scale);
      const Tensor lse = std::get<1>(results);
      cudnn_lse_has_four_axes_ = lse.dim() == 4;
      return {std::get<0>(results), lse.dim() == 4 ? lse.squeeze(-1) : lse};
    }
  }
  return {};
}

std::array<Tensor, 3> FusedKernel::backward_whole(const Tensor& gradient, const Tensor& q, const Tensor& k,
                                                  const Tensor& v, const Tensor& out, const Tensor& lse,
                                                  const AttentionArgs& args) {
  const int64_t queries = q.size(2), keys = k.size(2);
  std::array<Tensor, 3> result;
  auto& [dq, dk, dv] = result;
  // Without dropout the kernel does not read the generator's state, but requires it.
  const Tensor state = at::empty({}, q.options().dtype(at::kLong));
  switch (kernel_) {
    case Kernel::cpu: {
      if (runs_own(q, k, v, args))
        return cpu::backward(gradient, q, k, v, out, lse, {}, {args.scale, args.window});
      const auto mask = window_mask(q, k, args);
      std::tie(dq, dk, dv) = at::_scaled_dot_product_flash_attention_for_cpu_backward(
          gradient, q, k, v, out, lse, 0.0, args.causal && !mask, mask, args.scale);
      break;
    }
    case Kernel::flash:
      std::tie(dq, dk, dv) = at::_scaled_dot_product_flash_attention_backward(
          gradient, q, k, v, out, lse.contiguous(), {}, {}, queries, keys, 0.0, args.causal,
          at::empty({2}, q.options().dtype(at::kUInt64)), at::empty({}, q.options().dtype(at::kUInt64)),
          args.scale);
      break;
    case Kernel::efficient: {
      const int64_t padded = (queries + kRowsOfLse - 1) / kRowsOfLse * kRowsOfLse;
      const Tensor rows =
          at::constant_pad_nd(lse, {0, padded - queries}, std::numeric_limits<double>::infinity());
      std::tie(dq, dk, dv, std::ignore) = at::_scaled_dot_product_efficient_attention_backward(
          gradient, q, k, v, {}, by_rows(out), rows, state, state, 0.0, {true, true, true, false},
          args.causal, args.scale);
      break;
    }
    case Kernel::cudnn:
      std::tie(dq, dk, dv) = at::_scaled_dot_product_cudnn_attention_backward(
          by_rows(gradient), q, k, v, by_rows(out),
          cudnn_lse_has_four_axes_ ? lse.contiguous().unsqueeze(-1) : lse.contiguous(), state, state, {}, {},
          {}, queries, keys, 0.0, args.causal, args.scale);
      break;
  }
  return result;
}
}  // namespace optrush::flash
