#pragma once
#include "kernel_parts/largest.h"
#include "optrush/forecast.h"
#include "pairs.h"

namespace optrush::fused {
/// For a GPU kernel that writes `tensors` in the type of `written`; undefined if no parts are needed. fp64 is
/// never scaled.
inline Tensor largest_parts(const Tensor& written, Largest largest, int64_t tensors = 1) {
  if (largest == Largest::unknown || form_of(written) != at::kCUDA || written.scalar_type() == at::kDouble)
    return {};
  return new_largest_parts(written, tensors);
}
inline float* address_of(const Tensor& parts) {
  return parts.defined() ? static_cast<float*>(parts.data_ptr()) : nullptr;
}
}  // namespace optrush::fused
