#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <c10/core/DeviceGuard.h>

#include <algorithm>

#include "joined_memory/joined_gradients.h"
#include "kernel_parts/tensors.h"
#include "kernels.h"
#include "largest_parts.h"
#include "optrush/error.h"
#include "optrush/forecast.h"
#include "pairs.h"
#include "rounded_glu.h"

namespace optrush::fused {
namespace {
/// Elements that a thread gets at least together: whole cache lines of every type.
constexpr int64_t kBlock = 1024;

template <class Kernel>
void in_blocks(int64_t count, const Kernel& kernel) {
  at::parallel_for(0, (count + kBlock - 1) / kBlock, grain(kBlock), [&](int64_t begin, int64_t end) {
    kernel(begin * kBlock, std::min(count, end * kBlock));
  });
}

void check_alike(const Tensor& gate, const Tensor& up) {
  if (gate.sizes() != up.sizes() || gate.scalar_type() != up.scalar_type())
    throw Error("the fused kernel of a gated linear unit needs gate and up of the same shape and type");
}

const char* name_of(Gate activation) { return activation == Gate::silu ? "swiglu" : "geglu"; }

Tensor glu_forward(Gate activation, const Tensor& gate_given, const Tensor& up_given, Largest largest) {
  check_alike(gate_given, up_given);
  if (Tensor rounded = rounded_product(activation, gate_given, up_given); rounded.defined()) return rounded;
  const Tensor gate = gate_given.contiguous(), up = up_given.contiguous(), out = at::empty_like(gate);
  const Tensor parts = largest_parts(gate, largest);
  const GluForward p{.type = type_of(gate, name_of(activation)),
                     .activation = activation,
                     .gate = gate.const_data_ptr(),
                     .up = up.const_data_ptr(),
                     .out = out.data_ptr(),
                     .count = gate.numel(),
                     .stream = worth_streaming({out}, static_cast<int64_t>(out.nbytes())),
                     .largest = address_of(parts)};
  if (parts.defined()) note_largest(out, parts);
  const NotedKernel kernel(name_of(activation), bytes_of({gate, up, out}));
  if (is_forecast(gate)) return out;
  if (gate.is_cuda()) {
    const c10::DeviceGuard guard(gate.device());
    gpu::glu_forward(p);
  } else {
    in_blocks(p.count, [&](int64_t begin, int64_t end) { cpu::glu_forward(p, begin, end); });
  }
  return out;
}

/// Where the gradients of gate and up are written: their places beside each other, if those are offered.
Tensors glu_gradients(const Tensor& gate, const Tensor& up) {
  Tensors places = {place_of_gradient(gate), place_of_gradient(up)};
  if (places[0].defined() && places[1].defined() && places[0].strides() == places[1].strides()) return places;
  return {at::empty(gate.sizes(), gate.options()), at::empty(up.sizes(), up.options())};
}

Tensors glu_backward(Gate activation, const Tensor& gate_given, const Tensor& up_given,
                     const Tensor& gradient_given, Largest largest) {
  if (Tensors rounded = rounded_gradients(activation, gate_given, up_given, gradient_given); !rounded.empty())
    return rounded;
  const Tensor gate = gate_given.contiguous(), up = up_given.contiguous();
  const Tensor gradient = gradient_given.contiguous();
  const Tensors out = glu_gradients(gate_given, up_given);
  const bool joined = !out[0].is_contiguous();
  const int64_t width = joined ? out[0].size(-1) : gate.numel();
  const Tensor parts = largest_parts(gate, largest, /*tensors=*/2);
  const GluBackward p{.type = type_of(gate, name_of(activation)),
                      .activation = activation,
                      .gate = gate.const_data_ptr(),
                      .up = up.const_data_ptr(),
                      .out_gradient = gradient.const_data_ptr(),
                      .gate_gradient = out[0].data_ptr(),
                      .up_gradient = out[1].data_ptr(),
                      .count = gate.numel(),
                      .width = width,
                      .stride = joined ? out[0].stride(-2) : width,
                      .stream = worth_streaming({out[0], out[1]}, width * gate.element_size()),
                      .largest = address_of(parts)};
  for (int64_t i = 0; parts.defined() && i < 2; ++i)
    note_largest(out[static_cast<size_t>(i)], parts.narrow(0, i * kLargestParts, kLargestParts));
  const NotedKernel kernel(activation == Gate::silu ? "swiglu_backward" : "geglu_backward",
                           bytes_of({gate, up, gradient, out[0], out[1]}));
  if (is_forecast(gate)) return out;
  if (gate.is_cuda()) {
    const c10::DeviceGuard guard(gate.device());
    gpu::glu_backward(p);
  } else {
    in_blocks(p.count, [&](int64_t begin, int64_t end) { cpu::glu_backward(p, begin, end); });
  }
  return out;
}

Differentiable glu(Gate activation, Largest largest) {
  return {{.name = std::string("fused_") + name_of(activation),
           .forward = [=](const Tensors& in) -> Differentiable::Result {
             return {{glu_forward(activation, in[0], in[1], largest)}, {in[0], in[1]}};
           },
           .backward = [=](const Tensors& saved, const Tensors& g) -> Tensors {
             return glu_backward(activation, saved[0], saved[1], g[0], largest);
           },
           .traits = {.trace = Trace::opaque, .capturable = true}}};
}
}  // namespace

Differentiable swiglu(Largest largest) { return glu(Gate::silu, largest); }
Differentiable geglu(Largest largest) { return glu(Gate::gelu_tanh, largest); }
}  // namespace optrush::fused
