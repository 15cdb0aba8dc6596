#pragma once
#include <ATen/Functions.h>
#include <torch/csrc/jit/frontend/tracer.h>

#include <chrono>
#include <thread>

#include "optrush/tensor.h"

namespace optrush::testing {
/// Returns `x`. A traced graph has billions of operations, eager mode none.
inline Tensor slow_compiled(const Tensor& x) {
  if (!torch::jit::tracer::isTracing()) return x;
  Tensor work = x.detach().sum().tanh() * at::ones({512, 512}, x.options().requires_grad(false));
  for (int i = 0; i < 40; ++i) work = at::tanh(at::mm(work, work) * 1e-3);
  return x + work.sum() * 1e-30;
}

/// Returns `x` after a pause of 50 ms in eager mode. A traced graph has no pause.
inline Tensor slow_eager(const Tensor& x) {
  if (!torch::jit::tracer::isTracing()) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  return x;
}
}  // namespace optrush::testing
