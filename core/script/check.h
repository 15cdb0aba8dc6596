#pragma once
#include <string>
#include <vector>

#include "script/api.h"

namespace optrush {
/// The arguments of a call by parameter name, checked against the binding table: number, types, unknown and
/// missing fields, ranges, choices. Numbers are converted to the parameter's type. Errors name the function
/// and the argument.
LuaTable checked_arguments(const Function&, std::vector<LuaValue> given);
}  // namespace optrush
