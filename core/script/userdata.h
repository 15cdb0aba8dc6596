#pragma once
#include <lua.hpp>
#include <string>
#include <type_traits>

#include "script/objects.h"

namespace optrush {
// Objects in Lua, and the one way from a C++ exception to a Lua error. Lua is built as C: its errors are
// longjmps, which run no destructor. So C++ objects with destructors live only inside attempt(), which raises
// nothing in Lua, or inside a userdata, which Lua collects.

class ScriptContext;
ScriptContext& context_of(lua_State*);
/// Before the first coroutine is made: coroutines copy it.
void set_context(lua_State*, ScriptContext&);

/// Pushes the metatable of a class, made at the first call. May raise a Lua error.
void push_class(lua_State*, const char* name);

/// Pushes a userdata with an empty Object. May raise a Lua error.
Object& push_object(lua_State*);
/// The Object at `index`, or null where it is anything else. Raises nothing.
Object* object_at(lua_State*, int index);
/// "x.lua:12": the innermost line of Lua that is being executed. Raises nothing.
std::string position(lua_State*);

/// Keeps what was thrown: in `failure` as text for the script, with the script's line where it has no place
/// yet, and in the context as it was, for the caller of the script.
void keep_failure(lua_State*, Object& failure) noexcept;
/// Raises the failure as a Lua error.
[[noreturn]] void raise(lua_State*, const Object& failure);

/// Runs `body(slot)`, in which C++ objects may live, on an Object that push_object() gave. False where it
/// threw; then the slot holds the failure, to be raised. `body` must be trivially destructible: that error
/// jumps over it.
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
}  // namespace optrush
