// Lua states of a process that fuzzes end after so many instructions: an endless loop of a script is none of
// ours. The linker calls __wrap_lua_newstate for lua_newstate (-Wl,--wrap).
#include <lua.hpp>

extern "C" lua_State* __real_lua_newstate(lua_Alloc allocate, void* data);

namespace {
constexpr int kMostInstructions = 20'000;

void stop(lua_State* lua, lua_Debug*) {
  // A script may catch the error; it then gets it again at its next instruction.
  lua_sethook(lua, stop, LUA_MASKCOUNT, 1);
  luaL_error(lua, "too many instructions");
}
}  // namespace

extern "C" lua_State* __wrap_lua_newstate(lua_Alloc allocate, void* data) {
  lua_State* lua = __real_lua_newstate(allocate, data);
  if (lua != nullptr) lua_sethook(lua, stop, LUA_MASKCOUNT, kMostInstructions);
  return lua;
}
