#pragma once
#include "optrush/tensor.h"

namespace optrush {
/// A plan forecasts a step by running it on tensors that have sizes and no values
/// (docs/internals/forecasts.md): calls of ATen need no care. A kernel of one's own takes part when it makes
/// its outputs as ever, notes itself (optrush/costs.h), and then runs only where this is false. Its slot says
/// so by Traits::foreseeable.
bool is_forecast(at::Device);
bool is_forecast(const Tensor&);

/// The kind of device whose form of an operator is wanted (which kernel, how large a chunk): a device's own;
/// in a forecast that of the run that is forecast, kCPU or kCUDA.
at::DeviceType form_of(at::Device);
at::DeviceType form_of(const Tensor&);
}  // namespace optrush
