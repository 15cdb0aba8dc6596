#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <c10/core/DeviceGuard.h>

#include "kernel_parts/tensors.h"
#include "kernels.h"
#include "optrush/error.h"
#include "optrush/forecast.h"
#include "pairs.h"

namespace optrush::fused {
namespace {
struct ConvolutionInputs {
  Tensor x, weight;  ///< dense; weight (taps, C)
  Tensor documents;

  explicit ConvolutionInputs(const Tensors& in)
      : x(in[0].contiguous()), weight(in[1].to(wide_type(in[0])).flatten(1).t().contiguous()) {
    if (in.size() > 2) documents = in[2].to(at::kInt).contiguous();
    if (weight.size(1) != x.size(2))
      throw Error("the fused convolution needs a weight for each of " + std::to_string(x.size(2)) +
                  " channels, not " + std::to_string(weight.size(1)));
    if (on_gpu() && weight.size(0) > gpu::kMostTaps)
      throw Error("the fused convolution supports up to " + std::to_string(gpu::kMostTaps) +
                      " taps on a GPU, not " + std::to_string(weight.size(0)),
                  R"(remove "convolution" from the kernels of fused_delta_net)");
  }
  Convolution arguments() const {
    return {.type = type_of(x, "convolution"),
            .x = x.const_data_ptr(),
            .weight = weight.const_data_ptr(),
            .documents = documents.defined() ? documents.const_data_ptr<int32_t>() : nullptr,
            .batch = x.size(0),
            .positions = x.size(1),
            .channels = x.size(2),
            .taps = weight.size(0)};
  }
  bool on_gpu() const { return form_of(x) == at::kCUDA; }
  int64_t tokens() const { return x.numel() == 0 ? 0 : x.size(0) * x.size(1); }
};

Tensor convolution_forward(const ConvolutionInputs& in) {
  const Tensor out = at::empty_like(in.x);
  const NotedKernel kernel("convolution", bytes_of({in.x, in.weight, out}));
  if (is_forecast(in.x)) return out;
  const Convolution call = in.arguments();
  if (in.on_gpu()) {
    const c10::DeviceGuard guard(in.x.device());
    if (in.tokens() > 0) gpu::convolution_forward(call, out.data_ptr());
    return out;
  }
  at::parallel_for(0, in.tokens(), grain(call.channels * call.taps), [&](int64_t begin, int64_t end) {
    cpu::convolution_forward(call, out.data_ptr(), begin, end);
  });
  return out;
}

/// In fp64 on a CPU: (C, taps) as the weight is given.
Tensor weight_gradient_on_cpu(const ConvolutionInputs& in, const Tensor& weight_given,
                              const Tensor& out_gradient, const Tensor& x_gradient) {
  const Convolution call = in.arguments();
  const Tensor sum =
      sum_over_rows(in.tokens(), call.taps * call.channels, [&](int64_t begin, int64_t end, double* sums) {
        cpu::convolution_backward(call, out_gradient.const_data_ptr(), x_gradient.data_ptr(), sums, begin,
                                  end);
      });
  return sum.view({call.taps, call.channels})
      .t()
      .reshape(weight_given.sizes())
      .to(weight_given.scalar_type());
}

/// {x's gradient, the weight's}, and an undefined one of the documents.
Tensors convolution_backward(const ConvolutionInputs& in, const Tensor& weight_given,
                             const Tensor& out_gradient_given) {
  const Tensor out_gradient = out_gradient_given.contiguous(), x_gradient = at::empty_like(in.x);
  Tensors gradients = {x_gradient, Tensor()};
  if (in.documents.defined()) gradients.emplace_back();
  Tensor weight_parts;
  if (in.on_gpu())
    weight_parts = at::empty({gpu::convolution_runs(in.x.size(0), in.x.size(1)), in.weight.numel()},
                             in.weight.options());
  const NotedKernel kernel(
      "convolution_backward",
      bytes_of({in.x, in.weight, out_gradient, x_gradient}) + 2 * bytes_of({weight_parts}),
      /*launches=*/in.on_gpu() ? 2 : 1);
  if (is_forecast(in.x) || in.on_gpu())
    gradients[1] = at::empty(weight_given.sizes(), weight_given.options());
  if (is_forecast(in.x)) return gradients;
  if (in.on_gpu()) {
    const c10::DeviceGuard guard(in.x.device());
    gpu::convolution_backward(in.arguments(), out_gradient.const_data_ptr(), x_gradient.data_ptr(),
                              weight_parts.data_ptr(), gradients[1].data_ptr(),
                              type_of(weight_given, "convolution"));
  } else {
    gradients[1] = weight_gradient_on_cpu(in, weight_given, out_gradient, x_gradient);
  }
  return gradients;
}
}  // namespace

Differentiable convolution() {
  return {{.name = "fused_convolution",
           .forward = [](const Tensors& given) -> Differentiable::Result {
             return {{convolution_forward(ConvolutionInputs(given))}, given};
           },
           .backward = [](const Tensors& saved, const Tensors& g) -> Tensors {
             return convolution_backward(ConvolutionInputs(saved), saved[1], g[0]);
           },
           .traits = {.trace = Trace::opaque, .capturable = true}}};
}
}  // namespace optrush::fused
