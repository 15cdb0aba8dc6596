#include "rounded_glu.h"

#include <c10/core/DeviceGuard.h>

#include <string>
#include <utility>

#include "kernel_parts/tensors.h"
#include "optrush/forecast.h"
#include "rounded_parts.h"

namespace optrush::fused {
namespace {
std::shared_ptr<const RoundingOffer> offer_for(const Tensor& gate, const Tensor& up) {
  const bool fits = form_of(gate) == at::kCUDA && gate.scalar_type() == at::kBFloat16 && fits_8_bits(gate);
  return fits ? offered_rounding(Tensors{gate, up}) : nullptr;
}

/// Launches over (rows, columns) of the gate; the matrix may have more columns.
Rounded write_rounded(const char* name, Gate activation, const Rounding& rounding, int64_t tensors,
                      const Tensor& gate_given, const Tensor& up_given, const Tensor& gradient_given) {
  const Tensor gate = gate_given.contiguous(), up = up_given.contiguous();
  const Tensor gradient = gradient_given.defined() ? gradient_given.contiguous() : Tensor();
  const int64_t columns = gate.size(-1), rows = gate.numel() / columns;
  Rounded made = new_rounded(rounding, rows, tensors * columns);
  const NotedKernel kernel(name, bytes_of({gate, up, gradient, made.values, made.transposed}));
  if (is_forecast(gate)) return made;
  const c10::DeviceGuard guard(gate.device());
  gpu::rounded_glu({.type = type_of(gate, name),
                    .activation = activation,
                    .gate = gate.const_data_ptr(),
                    .up = up.const_data_ptr(),
                    .out_gradient = gradient.defined() ? gradient.const_data_ptr() : nullptr,
                    .mantissa = rounding.type == at::kFloat8_e5m2 ? 2 : 3,
                    .to = place_of(made, columns)});
  return made;
}
}  // namespace

Tensor rounded_product(Gate activation, const Tensor& gate, const Tensor& up) {
  const auto offer = offer_for(gate, up);
  if (offer == nullptr || !offer->product) return {};
  const char* name = activation == Gate::silu ? "swiglu_rounded" : "geglu_rounded";
  Rounded made = write_rounded(name, activation, *offer->product, 1, gate, up, {});
  return without_numbers(std::move(made), *offer, gate.sizes(), 1).front();
}

Tensors rounded_gradients(Gate activation, const Tensor& gate, const Tensor& up, const Tensor& gradient) {
  const auto offer = offer_for(gate, up);
  if (offer == nullptr || !offer->gradients) return {};
  const char* name = activation == Gate::silu ? "swiglu_backward_rounded" : "geglu_backward_rounded";
  Rounded made = write_rounded(name, activation, *offer->gradients, 2, gate, up, gradient);
  return without_numbers(std::move(made), *offer, gate.sizes(), 2);
}
}  // namespace optrush::fused
