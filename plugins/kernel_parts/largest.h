#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

/// The largest absolute value of a tensor, found by the GPU kernel that wrote the tensor. A kernel that
/// scales by it saves one read of the tensor.
namespace optrush::fused {
/// The same number as in lanes.cuh.
constexpr int64_t kLargestParts = 512;

/// Zeros (tensors * kLargestParts) in fp32 on the device of `like`. A kernel raises each to the largest value
/// of its part.
at::Tensor new_largest_parts(const at::Tensor& like, int64_t tensors = 1);
/// Leaves the parts, any number of them, on the tensor; they are freed with it. A view or a copy of the
/// tensor has none.
void note_largest(const at::Tensor&, at::Tensor parts);
/// The noted parts; undefined if there are none, or if the tensor has changed since. A kernel that writes to
/// the tensor outside of ATen must call at::Tensor::unsafeGetTensorImpl()->bump_version(). With
/// OPTRUSH_CHECK_LARGEST=1 it compares the parts with the tensor, and throws an Error if they are too small.
at::Tensor noted_largest(const at::Tensor&);
}  // namespace optrush::fused
