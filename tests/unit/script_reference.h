#pragma once
#include <string>

namespace optrush {
/// The generated part of docs/reference/lua.md, made from the binding table.
std::string lua_reference();
}  // namespace optrush
