#pragma once

struct lua_State;

namespace optrush {
/// Makes the classes of the binding table known to this state. May raise a Lua error.
void register_classes(lua_State*);
/// Pushes the module that `require "optrush"` gives. May raise a Lua error.
void push_module(lua_State*);
}  // namespace optrush
