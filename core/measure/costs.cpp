#include "optrush/costs.h"

#include <ATen/record_function.h>

#include <array>
#include <span>

#include "measure/noted.h"

namespace optrush {
namespace {
void tell(std::string_view name, std::span<const c10::IValue> inputs) {
  RECORD_FUNCTION(name.data(), c10::ArrayRef<const c10::IValue>(inputs.data(), inputs.size()));
}
}  // namespace

void note_flops(double flops) {
  if (at::hasCallbacks()) tell(kNotedFlops, std::array<c10::IValue, 1>{c10::IValue(flops)});
}

void note_kernel(const std::string& name, double bytes, int64_t launches) {
  if (at::hasCallbacks())
    tell(kNotedKernel,
         std::array<c10::IValue, 3>{c10::IValue(name), c10::IValue(bytes), c10::IValue(launches)});
}

double bytes_of(std::initializer_list<Tensor> tensors) {
  double bytes = 0;
  for (const Tensor& tensor : tensors) {
    if (!tensor.defined()) continue;
    auto elements = static_cast<double>(tensor.element_size());
    for (int64_t axis = 0; axis < tensor.dim(); ++axis)
      if (tensor.stride(axis) != 0) elements *= static_cast<double>(tensor.size(axis));
    bytes += tensor.numel() == 0 ? 0 : elements;
  }
  return bytes;
}
}  // namespace optrush
