#pragma once
#include <ATen/core/Tensor.h>

#include <initializer_list>
#include <string>

#include "kernel_parts/type.h"

namespace optrush::fused {
/// An Error names the operator and the type, or the device, if no kernel supports it.
Type type_of(const at::Tensor&, const std::string& op);
/// fp64 if x is fp64, otherwise fp32.
at::ScalarType wide_type(const at::Tensor& x);
/// Whether a CPU kernel should store past the caches: the results do not fit there, and each row of
/// `row_bytes` starts at a cache line.
bool worth_streaming(std::initializer_list<at::Tensor> results, int64_t row_bytes);
/// Rows that are worth a thread.
int64_t grain(int64_t width);
}  // namespace optrush::fused
