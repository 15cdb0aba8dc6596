#pragma once
#include <lua.hpp>
#include <string>
#include <type_traits>

#include "script/objects.h"

namespace optrush {
// Objects in Lua, and C++ exceptions as Lua errors. These are longjmps that run no destructors, so C++
// objects with destructors may live only inside attempt() or inside a userdata.

class ScriptContext;
ScriptContext& context_of(lua_State*);
/// Must be called before the first coroutine is created, because coroutines copy it.
void set_context(lua_State*, ScriptContext&);

/// Pushes the metatable of a class and creates it at the first call. May raise a Lua error.
void push_class(lua_State*, const char* name);

/// Pushes a userdata with an empty Object, which is also the module for `require "optrush"`. May raise a Lua
/// error.
Object& push_object(lua_State*);
/// The Object at `index`; null for other values. Raises no error.
Object* object_at(lua_State*, int index);
/// The innermost line of Lua that is executed: "x.lua:12". Raises no error.
std::string position(lua_State*);

/// Stores the present exception: as text in `failure` for the script, with the script's line if it has no
/// place, and unchanged in the context for the caller of the script.
void keep_failure(lua_State*, Object& failure) noexcept;
/// Raises the failure as a Lua error.
[[noreturn]] void raise(lua_State*, const Object& failure);

/// Runs `body(slot)`, in which C++ objects may live, on an Object from push_object(). Returns false if it
/// threw; then the slot holds the failure, which the caller raises. The Lua error jumps over `body`.
template <class Body>
bool attempt(lua_State* lua, Object& slot, const Body& body) noexcept {
  static_assert(std::is_trivially_destructible_v<Body>);
  const int top = lua_gettop(lua);
  try {
    body(slot);
    return true;
  } catch (...) {
    keep_failure(lua, slot);
    lua_settop(lua, top);
    return false;
  }
}

/// Registers the classes of the binding table in this state. May raise a Lua error.
void register_classes(lua_State*);
}  // namespace optrush
