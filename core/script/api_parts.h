#pragma once
#include <vector>

#include "script/api.h"

namespace optrush {
/// The two parts of api().
std::vector<Class> api_classes();
std::vector<Function> api_functions();
}  // namespace optrush
