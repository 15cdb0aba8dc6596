#pragma once
#include "optrush/tensor.h"

namespace optrush::fsdp {
/// Pieces in host memory. A forecast has no values to copy there, and leaves the memory untouched.
Tensor new_piece(int64_t elements, const at::TensorOptions&, at::Device run);
/// `tensor` in these options.
Tensor moved(const Tensor& tensor, const at::TensorOptions&);
void copy_to_piece(const Tensor& piece, const Tensor& values);

/// Throws an Error if the plan of a run would need `bytes` of host memory for an optimizer on the CPU, which
/// uses real tensors even in a forecast.
void refuse_large_forecast(double bytes);
}  // namespace optrush::fsdp
