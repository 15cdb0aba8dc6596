#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <c10/core/DeviceGuard.h>

#include <algorithm>

#include "kernel_parts/tensors.h"
#include "kernels.h"
#include "largest_parts.h"
#include "optrush/error.h"
#include "optrush/forecast.h"
#include "optrush/shard.h"
#include "pairs.h"
#include "rounded_parts.h"

namespace optrush::fused {
namespace {
using Low = std::optional<at::ScalarType>;

/// The kernels take delta in x's type, or in the lower one that the result has or autocast gives.
Tensor fitting(const Tensor& delta, const Tensor& x, at::ScalarType result) {
  const auto type = delta.scalar_type();
  const bool low = type == at::kBFloat16 || type == at::kHalf;
  const bool fits = type == x.scalar_type() ||
                    (x.scalar_type() == at::kFloat && low && (result == at::kFloat || result == type));
  return (fits ? delta : delta.to(x.scalar_type())).contiguous();
}

struct Normed {
  Tensor sum, out, rstd;
  at::ScalarType delta_type;  ///< that the kernel took
};

/// What linears in 8 bits that read the result offer for it; null if they do not, or if there is no such
/// kernel.
std::shared_ptr<const RoundingOffer> offer_for_result(const Tensor& x, at::ScalarType result) {
  const bool fits = form_of(x) == at::kCUDA && x.scalar_type() != at::kDouble && result == at::kBFloat16;
  if (!fits || !fits_8_bits(x)) return nullptr;
  const auto offer = offered_rounding(x);
  return offer != nullptr && offer->product ? offer : nullptr;
}

/// Without delta `sum` is x.
Normed norm_forward(const std::string& op, const Tensor& x_given, const Tensor& delta_given,
                    const Tensor& weight, double eps, Low low, Largest largest) {
  const Tensor x = x_given.contiguous(), wide_weight = weight.to(wide_type(x)).contiguous();
  const auto result = x.scalar_type() == at::kFloat ? low.value_or(at::kFloat) : x.scalar_type();
  const Tensor delta = delta_given.defined() ? fitting(delta_given, x, result) : Tensor();
  const int64_t width = x.size(-1), rows = width == 0 ? 0 : x.numel() / width;
  const auto one_a_row = x.sizes().slice(0, static_cast<size_t>(x.dim() - 1));
  Normed normed{.sum = delta.defined() ? at::empty_like(x) : x_given,
                .rstd = at::empty(one_a_row, x.options().dtype(wide_type(x))),
                .delta_type = (delta.defined() ? delta : x).scalar_type()};
  NormForward p{.x_type = type_of(x, op),
                .delta_type = type_of(delta.defined() ? delta : x, op),
                .x = x.const_data_ptr(),
                .delta = delta.defined() ? delta.const_data_ptr() : nullptr,
                .weight = wide_weight.const_data_ptr(),
                .sum = delta.defined() ? normed.sum.data_ptr() : nullptr,
                .rstd = normed.rstd.data_ptr(),
                .rows = rows,
                .width = width,
                .eps = eps};
  const auto bytes = [&](const Tensor& out, const Tensor& turned) {
    return bytes_of(
        {x, delta, wide_weight, delta.defined() ? normed.sum : Tensor(), normed.rstd, out, turned});
  };
  if (const auto offer = offer_for_result(x_given, result); offer != nullptr && gpu::rounds(p)) {
    const Rounded made = new_rounded(*offer->product, rows, width);
    normed.out = without_numbers(made, *offer, x.sizes(), 1).front();
    const NotedKernel kernel(op + "_rounded", bytes(made.values, made.transposed));
    if (is_forecast(x)) return normed;
    const c10::DeviceGuard guard(x.device());
    gpu::rounded_norm(p, place_of(made, width));
    return normed;
  }
  normed.out = at::empty(x.sizes(), x.options().dtype(result));
  const Tensor parts = largest_parts(normed.out, largest);
  if (parts.defined()) note_largest(normed.out, parts);
  p.out_type = type_of(normed.out, op);
  p.out = normed.out.data_ptr();
  p.stream = worth_streaming({delta.defined() ? normed.sum : Tensor(), normed.out},
                             width * static_cast<int64_t>(normed.out.element_size()));
  p.largest = address_of(parts);
  const NotedKernel kernel(op, bytes(normed.out, {}));
  if (is_forecast(x)) return normed;
  if (x.is_cuda()) {
    const c10::DeviceGuard guard(x.device());
    gpu::norm_forward(p);
  } else {
    at::parallel_for(0, rows, grain(width),
                     [&](int64_t begin, int64_t end) { cpu::norm_forward(p, begin, end); });
  }
  return normed;
}

struct Gradients {
  Tensor x, delta, weight;
};

/// Runs the kernel; returns the gradient of the weight.
Tensor on_cpu(const NormBackward& p, const Tensor& weight) {
  const Tensor sum = sum_over_rows(p.rows, p.width, [&](int64_t begin, int64_t end, double* sums) {
    cpu::norm_backward(p, begin, end, sums);
  });
  return sum.to(weight.scalar_type());
}

Tensor on_gpu(const NormBackward& p, const Tensor& weight, const Tensor& wide_weight) {
  const c10::DeviceGuard guard(weight.device());
  const int64_t blocks = gpu::norm_backward_blocks(p);
  const Tensor weight_parts = at::empty({blocks, p.width}, wide_weight.options());
  Tensor gradient = at::empty(weight.sizes(), weight.options());
  gpu::norm_backward(p, weight_parts.data_ptr(), blocks, gradient.data_ptr(), type_of(weight, "norm"));
  return gradient;
}

/// Either of the output gradients may be undefined. `delta_type`: of the residual's other term; the two share
/// one gradient tensor if they share a type.
Gradients norm_backward(const std::string& op, const Tensor& s_given, const Tensor& rstd,
                        const Tensor& weight, const Tensor& out_gradient_given,
                        const Tensor& sum_gradient_given, at::ScalarType delta_type, Largest largest) {
  const Tensor s = s_given.contiguous(), wide_weight = weight.to(wide_type(s)).contiguous();
  const Tensor out_gradient =
      (out_gradient_given.defined() ? out_gradient_given : at::zeros_like(s)).contiguous();
  const bool lowers = delta_type != s.scalar_type();
  const Tensor sum_gradient = sum_gradient_given.defined() ? sum_gradient_given.contiguous()
                              : lowers                     ? at::zeros_like(s)
                                                           : Tensor();
  const int64_t width = s.size(-1), rows = width == 0 ? 0 : s.numel() / width;
  Gradients gradients{at::empty_like(s),
                      lowers ? at::empty(s.sizes(), s.options().dtype(delta_type)) : Tensor(), Tensor()};
  const Tensor of_delta = lowers ? gradients.delta : gradients.x, parts = largest_parts(of_delta, largest);
  if (parts.defined()) note_largest(of_delta, parts);
  const NormBackward p{.x_type = type_of(s, op),
                       .delta_type = type_of(lowers ? gradients.delta : s, op),
                       .out_type = type_of(out_gradient, op),
                       .s = s.const_data_ptr(),
                       .rstd = rstd.const_data_ptr(),
                       .weight = wide_weight.const_data_ptr(),
                       .out_gradient = out_gradient.const_data_ptr(),
                       .sum_gradient = sum_gradient.defined() ? sum_gradient.const_data_ptr() : nullptr,
                       .gradient = gradients.x.data_ptr(),
                       .delta_gradient = lowers ? gradients.delta.data_ptr() : nullptr,
                       .rows = rows,
                       .width = width,
                       .stream = worth_streaming({gradients.x, gradients.delta},
                                                 width * static_cast<int64_t>(of_delta.element_size())),
                       .largest = address_of(parts)};
  // The second kernel sums the partial weight gradients of the first kernel's blocks.
  const NotedKernel kernel(
      op + "_backward",
      bytes_of({s, rstd, wide_weight, out_gradient, sum_gradient, gradients.x, gradients.delta, weight}),
      /*launches=*/2);
  gradients.weight = is_forecast(s) ? at::empty(weight.sizes(), weight.options())
                     : s.is_cuda()  ? on_gpu(p, weight, wide_weight)
                                    : on_cpu(p, weight);
  if (!lowers) gradients.delta = gradients.x;
  return gradients;
}
}  // namespace

Differentiable norm(double eps, Low low, Largest largest) {
  return {{.name = "fused_norm",
           .forward = [=](const Tensors& in) -> Differentiable::Result {
             const Normed normed = norm_forward("norm", in[0], {}, in[1], eps, low, largest);
             return {{in[0], normed.out}, {in[0], normed.rstd, in[1]}};
           },
           .backward = [=](const Tensors& saved, const Tensors& g) -> Tensors {
             const auto gradients = norm_backward("norm", saved[0], saved[1], saved[2], g[1], g[0],
                                                  saved[0].scalar_type(), largest);
             return {gradients.x, gradients.weight};
           },
           .traits = {.trace = Trace::opaque, .capturable = true}}};
}

Differentiable add_norm(double eps, Low low, Largest largest) {
  return {
      {.name = "fused_add_norm",
       .forward = [=](const Tensors& in) -> Differentiable::Result {
         const auto sum_type = at::promote_types(in[0].scalar_type(), in[1].scalar_type());
         const Normed normed = norm_forward("add_norm", in[0].to(sum_type), in[1], in[2], eps, low, largest);
         // An empty tensor passes delta's type to the backward.
         return {{normed.sum, normed.out},
                 {normed.sum, normed.rstd, in[2], at::empty({0}, in[1].options().dtype(normed.delta_type))}};
       },
       .backward = [=](const Tensors& saved, const Tensors& g) -> Tensors {
         const auto gradients = norm_backward("add_norm", saved[0], saved[1], saved[2], g[1], g[0],
                                              saved[3].scalar_type(), largest);
         return {gradients.x, gradients.delta, gradients.weight};
       },
       .traits = {.trace = Trace::opaque, .capturable = true}}};
}
}  // namespace optrush::fused
