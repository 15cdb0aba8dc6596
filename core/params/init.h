#pragma once
#include <functional>

#include "optrush/param.h"

namespace optrush {
using Initializer = std::function<void(Tensor&, at::Generator&)>;
Initializer constant(double value);
Initializer normal(double standard_deviation);
/// U(-bound, bound) with bound = 1 / sqrt(fan_in): torch.nn.Linear's default, kaiming_uniform(a = sqrt(5)).
Initializer uniform_by_fan_in();
/// The type in which the values of a parameter are drawn.
at::ScalarType drawn_type(const Param&);
/// The full initial value of a parameter on the CPU, from (seed, name) only, before rounding to its dtype.
Tensor initial_value(const Param&, uint64_t seed);
/// Zeros in the shape of the parameter that take no memory until they are written.
Tensor no_value(const Param&);
}  // namespace optrush
