#include "script/userdata.h"

#include <array>
#include <cstdlib>

#include "script/context.h"

namespace optrush {
namespace {
const char kMarker = 0;  // its address marks the metatables of objects; scripts can't create such a key

int collect(lua_State* lua) {
  if (Object* object = object_at(lua, 1)) {
    *object = Object();  // a script may still hold it in the finalizer of another value
  }
  return 0;
}
}  // namespace

const char* class_of(const Object& object) {
  static constexpr std::array names = {"optrush",    "Model",  "Data",  "Corpus", "Rung",
                                       "Experiment", "Report", "table", "error"};
  static_assert(names.size() == std::variant_size_v<Object>);
  return names.at(object.index());
}

ScriptContext& context_of(lua_State* lua) { return **static_cast<ScriptContext**>(lua_getextraspace(lua)); }
void set_context(lua_State* lua, ScriptContext& context) {
  *static_cast<ScriptContext**>(lua_getextraspace(lua)) = &context;
}

void push_class(lua_State* lua, const char* name) {
  if (luaL_newmetatable(lua, name) == 0) return;
  lua_pushboolean(lua, 1);
  lua_rawsetp(lua, -2, &kMarker);
  lua_pushcfunction(lua, collect);
  lua_setfield(lua, -2, "__gc");
  lua_pushboolean(lua, 0);
  lua_setfield(lua, -2, "__metatable");
}

Object& push_object(lua_State* lua) {
  if (context_of(lua).closing) luaL_error(lua, "the script has ended");
  const char* name = class_of(Object());
  push_class(lua, name);
  auto* object = std::construct_at(static_cast<Object*>(lua_newuserdatauv(lua, sizeof(Object), 0)));
  lua_insert(lua, -2);
  lua_setmetatable(lua, -2);
  return *object;
}

Object* object_at(lua_State* lua, int index) {
  if (lua_type(lua, index) != LUA_TUSERDATA || lua_checkstack(lua, 2) == 0) return nullptr;
  if (lua_getmetatable(lua, index) == 0) return nullptr;
  const bool ours = lua_rawgetp(lua, -1, &kMarker) != LUA_TNIL;
  lua_pop(lua, 2);
  return ours ? static_cast<Object*>(lua_touserdata(lua, index)) : nullptr;
}

std::string position(lua_State* lua) {
  lua_Debug frame;
  for (int level = 0; lua_getstack(lua, level, &frame) != 0; ++level) {
    lua_getinfo(lua, "Sl", &frame);
    if (frame.currentline > 0) return std::string(frame.source + 1) + ":" + std::to_string(frame.currentline);
  }
  return context_of(lua).script().filename();
}

void keep_failure(lua_State* lua, Object& failure) noexcept {
  failure = std::monostate();
  try {
    try {
      throw;
    } catch (const Error& e) {
      context_of(lua).last_error = e.at(position(lua));
      failure = Failure{context_of(lua).last_error->what()};
    } catch (const std::exception& e) {
      failure = Failure{e.what()};
    }
  } catch (...) {
    // There is no memory for the text, or the exception has none: raise() reports that.
  }
}

void raise(lua_State* lua, const Object& failure) {
  if (const auto* known = std::get_if<Failure>(&failure))
    lua_pushlstring(lua, known->text.data(), known->text.size());
  else
    lua_pushliteral(lua, "an error without a message");
  lua_error(lua);
  std::abort();  // not reached: lua_error() does not return
}
}  // namespace optrush
