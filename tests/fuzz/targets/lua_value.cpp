// Conversion of a Lua value to data. The input is a Lua expression.
#include "script/lua_value.h"

#include <lua.hpp>
#include <memory>

#include "target.h"

namespace {
constexpr int kMostInstructions = 20'000;

void stop(lua_State* lua, lua_Debug*) {
  lua_sethook(lua, stop, LUA_MASKCOUNT, 1);  // a handler that catches the error gets it again
  luaL_error(lua, "too many instructions");
}
}  // namespace

FUZZ_TARGET(lua_value) {
  using namespace optrush;
  const std::unique_ptr<lua_State, void (*)(lua_State*)> state(luaL_newstate(), lua_close);
  lua_State* lua = state.get();
  lua_sethook(lua, stop, LUA_MASKCOUNT, kMostInstructions);
  const std::string chunk = "return " + fuzz::text_of(data, size);
  fuzz::feed([&] {
    if (luaL_loadbufferx(lua, chunk.data(), chunk.size(), "input", "t") != LUA_OK ||
        lua_pcall(lua, 0, 1, 0) != LUA_OK)
      throw Error("no expression");
    const int top = lua_gettop(lua);
    const LuaValue value = read_value(lua, -1);
    fuzz::hold(lua_gettop(lua) == top, "reading leaves the stack as it was");
    fuzz::hold(!shown(value).empty(), "a value can be shown");
    const Json json = to_json(value, "value");
    fuzz::hold(parse_json(json_text(json), "again") == json, "a value is read as it is written");
  });
  return 0;
}
