#include "past_scales.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include <limits>

#include "kernel_parts/largest.h"
#include "optrush/forecast.h"
#include "optrush/mesh.h"

namespace optrush::float8 {
void PastScales::make(int64_t tensors, Run& run) {
  const auto fp32 = at::TensorOptions(at::kFloat).device(run.device());
  largest_ = at::zeros({tensors, kSteps}, fp32);
  seen_ = at::zeros({tensors, fused::kLargestParts}, fp32);
  unread_ = at::full({1}, std::numeric_limits<double>::quiet_NaN(), fp32.dtype(at::kBFloat16));
  const Mesh& mesh = run.mesh();
  const auto ranks = static_cast<double>(mesh.world_size());
  if (ranks > 1)
    run.expect_traffic("all_reduce", mesh.all(), 2 * (ranks - 1) / ranks * static_cast<double>(tensors) * 4);
}

Delayed PastScales::of(int64_t tensor) const {
  return {known_ ? largest_.select(0, tensor) : Tensor(), seen_.select(0, tensor)};
}

void PastScales::begin_step(const Run& run) {
  const at::NoGradGuard no_grad;
  seen_.zero_();  // a validation has noted values too
  if (!begun_ && !is_forecast(run.device())) known_ = largest_.count_nonzero().item<int64_t>() > 0;
  begun_ = true;
}

void PastScales::end_step(Run& run) {
  const at::NoGradGuard no_grad;
  const Tensor found = seen_.amax(1);
  const Tensor newest = at::where(found < std::numeric_limits<double>::infinity(), found, 0);
  run.mesh().group(run.mesh().all()).all_reduce_max(newest).wait();
  largest_.select(1, run.step() % kSteps).copy_(newest);
  known_ = true;
}
}  // namespace optrush::float8
