#pragma once

struct lua_State;

namespace optrush {
/// Registers the classes of the binding table in this state. May raise a Lua error.
void register_classes(lua_State*);
/// Pushes the module for `require "optrush"`. May raise a Lua error.
void push_module(lua_State*);
/// Defines the global `require`: "optrush" is the bound module. Other names are Lua files in the script's
/// folder or in the Lua library, and nowhere else. May raise a Lua error.
void open_require(lua_State*);
}  // namespace optrush
