#pragma once
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>

#include <vector>

namespace optrush {
using Tensor = at::Tensor;
using Tensors = std::vector<at::Tensor>;
}  // namespace optrush
