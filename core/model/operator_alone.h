#pragma once
#include "spec/operator_spec.h"
#include "model/model.h"

namespace optrush {
Model declare_operator(const OperatorSpec&, Params&, at::ScalarType dtype);
}  // namespace optrush
