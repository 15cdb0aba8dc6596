#include "host_piece.h"

#include <ATen/Functions.h>

#include <string>

#include "optrush/error.h"
#include "optrush/forecast.h"

namespace optrush::fsdp {
Tensor new_piece(int64_t elements, const at::TensorOptions& options, at::Device run) {
  const bool untouched = options.device().is_cpu() && is_forecast(run);
  // Padding is zero, and stays so: it has no gradient.
  return untouched ? at::empty({elements}, options) : at::zeros({elements}, options);
}

Tensor moved(const Tensor& tensor, const at::TensorOptions& options) {
  const bool untouched = options.device().is_cpu() && is_forecast(tensor);
  return untouched ? at::zeros(tensor.sizes(), options) : tensor.to(options);
}

void copy_to_piece(const Tensor& piece, const Tensor& values) {
  if (!piece.is_cpu() || !is_forecast(values)) piece.copy_(values);
}

void refuse_large_forecast(double bytes) {
  constexpr double kLargest = 8.0 * (1 << 30);
  if (bytes <= kLargest) return;
  throw Error("the forecast would need " + std::to_string(static_cast<int64_t>(bytes / (1 << 30))) +
                  " GiB of host memory for the offloaded optimizer",
              "plan a smaller model, or train fewer parameters: lora");
}
}  // namespace optrush::fsdp
