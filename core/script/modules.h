#pragma once

struct lua_State;

namespace optrush {
/// Defines the global `require`: "optrush" is the bound module. Other names are Lua files in the script's
/// folder or in the Lua library, and nowhere else. May raise a Lua error.
void open_require(lua_State*);
}  // namespace optrush
