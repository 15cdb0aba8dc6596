#pragma once

struct lua_State;

namespace optrush {
/// Registers the classes of the binding table in this state. May raise a Lua error.
void register_classes(lua_State*);
/// Pushes the module for `require "optrush"`. May raise a Lua error.
void push_module(lua_State*);
}  // namespace optrush
