#pragma once
#include "model/model.h"
#include "spec/operator_spec.h"

namespace optrush {
Model declare_operator(const OperatorSpec&, Params&, at::ScalarType dtype);
}  // namespace optrush
