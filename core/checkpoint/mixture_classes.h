#pragma once
#include <vector>

#include "checkpoint/architectures.h"

namespace optrush {
/// The classes with a mixture of experts.
std::vector<Architecture> mixture_classes();
/// Writes the number of experts under the names of transformers 4 and 5.
void name_experts(int64_t experts, Json& config);
}  // namespace optrush
