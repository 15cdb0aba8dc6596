#pragma once
#include <string>

namespace optrush {
/// The reference section of docs/experiments.md, made from the binding table.
std::string lua_reference();
}  // namespace optrush
