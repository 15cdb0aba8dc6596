#pragma once
#include <functional>
#include <string>

#include "optrush/param.h"

namespace optrush {
using Initializer = std::function<void(Tensor&, at::Generator&)>;
Initializer constant(double value);
Initializer normal(double standard_deviation);
/// U(-bound, bound) with bound = 1 / sqrt(fan_in): torch.nn.Linear's default, kaiming_uniform(a = sqrt(5)).
Initializer uniform_by_fan_in();
/// The full value of a parameter on the CPU, from (seed, name) alone; not yet cut to its dtype.
Tensor initial_value(const Param&, uint64_t seed);
/// Zeros in its place that take no memory while they are only read: for a device that computes nothing.
Tensor no_value(const Param&);
}  // namespace optrush
