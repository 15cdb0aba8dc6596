#pragma once
#include "model/model.h"

namespace optrush {
Model declare_swiglu_stack(const SwigluStackSpec&, Params&, at::ScalarType dtype);
}  // namespace optrush
