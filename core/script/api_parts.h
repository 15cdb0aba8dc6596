#pragma once
#include <vector>

#include "script/api.h"

namespace optrush {
/// The two halves of api(): what values there are, and what can be called.
std::vector<Class> api_classes();
std::vector<Function> api_functions();
}  // namespace optrush
