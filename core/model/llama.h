#pragma once
#include "model/model.h"

namespace optrush {
Model declare_llama(const LlamaSpec&, Params&, at::ScalarType dtype);
}  // namespace optrush
