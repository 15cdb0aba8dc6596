#include "script/sandbox.h"

#include <cstdlib>
#include <lua.hpp>

#include "script/context.h"
#include "script/userdata.h"

namespace optrush {
namespace {
constexpr const char* kBase[] = {"_G",     "_VERSION", "assert", "error",        "getmetatable", "ipairs",
                                 "next",   "pairs",    "pcall",  "print",        "rawequal",     "rawget",
                                 "rawlen", "rawset",   "select", "setmetatable", "tonumber",     "tostring",
                                 "type",   "xpcall",   "load"};
constexpr const char* kClock[] = {"clock", "date", "time"};

// NOLINTBEGIN(cppcoreguidelines-owning-memory): lua_Alloc has the contract of realloc.
void* allocate(void* used_bytes, void* block, size_t old_size, size_t new_size) {
  auto& used = *static_cast<size_t*>(used_bytes);
  // without a block, old_size is the type of the object
  const size_t old_bytes = block == nullptr ? 0 : old_size;
  if (new_size == 0) {
    std::free(block);
    used -= old_bytes;
    return nullptr;
  }
  if (new_size > old_bytes && new_size - old_bytes > kMostScriptMemory - used) return nullptr;
  void* moved = std::realloc(block, new_size);
  if (moved != nullptr) used = used - old_bytes + new_size;
  return moved;
}
// NOLINTEND(cppcoreguidelines-owning-memory)

/// Replaces load(), which also accepts the output of string.dump: damaged bytecode crashes the interpreter.
int load_text(lua_State* lua) {
  if (lua_gettop(lua) < 3) lua_settop(lua, 3);
  lua_pushliteral(lua, "t");
  lua_replace(lua, 3);
  lua_pushvalue(lua, lua_upvalueindex(1));
  lua_insert(lua, 1);
  lua_call(lua, lua_gettop(lua) - 1, LUA_MULTRET);
  return lua_gettop(lua);
}

constexpr int kInstructionsBetweenLooks = 10'000;

void count_instructions(lua_State* lua, lua_Debug*) {
  ScriptContext& context = context_of(lua);
  context.instructions += kInstructionsBetweenLooks;
  if (context.instructions < context.options().most_instructions) return;
  // a pcall may catch this error, but the next instruction raises it again
  lua_sethook(lua, count_instructions, LUA_MASKCOUNT, 1);
  luaL_where(lua, 0);
  lua_pushliteral(lua, "the script runs without end");
  lua_concat(lua, 2);
  lua_error(lua);
}

/// Opens a library and keeps only these fields of the table at the top of the stack, as global `name`.
template <size_t N>
void keep_only(lua_State* lua, const char* name, const char* const (&fields)[N]) {
  lua_createtable(lua, 0, static_cast<int>(N));
  for (const char* field : fields) {
    lua_getfield(lua, -2, field);
    lua_setfield(lua, -2, field);
  }
  lua_setglobal(lua, name);
  lua_pop(lua, 1);
}

void drop_other_globals(lua_State* lua) {
  lua_pushglobaltable(lua);
  lua_newtable(lua);
  for (const char* name : kBase) {
    lua_getfield(lua, -2, name);
    lua_setfield(lua, -2, name);
  }
  lua_pushnil(lua);
  while (lua_next(lua, -3) != 0) {
    lua_pop(lua, 1);
    lua_pushvalue(lua, -1);
    if (lua_rawget(lua, -3) == LUA_TNIL) {
      lua_pushvalue(lua, -2);
      lua_pushnil(lua);
      lua_rawset(lua, -6);
    }
    lua_pop(lua, 1);
  }
  lua_pop(lua, 2);
}
}  // namespace

void LuaState::Close::operator()(lua_State* lua) const {
  context_of(lua).closing = true;
  lua_close(lua);
}

LuaState::LuaState(ScriptContext& context)
    : used_(std::make_unique<size_t>(0)), state_(lua_newstate(allocate, used_.get())) {
  if (!state_) throw Error(ErrorCode::out_of_memory, "out of memory for a Lua state");
  set_context(state_.get(), context);
}

void open_safe_libraries(lua_State* lua) {
  luaL_requiref(lua, LUA_GNAME, luaopen_base, 1);
  lua_pop(lua, 1);
  drop_other_globals(lua);
  lua_getglobal(lua, "load");
  lua_pushcclosure(lua, load_text, 1);
  lua_setglobal(lua, "load");

  const luaL_Reg libraries[] = {{LUA_STRLIBNAME, luaopen_string},
                                {LUA_TABLIBNAME, luaopen_table},
                                {LUA_MATHLIBNAME, luaopen_math},
                                {LUA_UTF8LIBNAME, luaopen_utf8},
                                {LUA_COLIBNAME, luaopen_coroutine}};
  for (const auto& [name, open] : libraries) {
    luaL_requiref(lua, name, open, 1);
    lua_pop(lua, 1);
  }
  luaL_requiref(lua, LUA_OSLIBNAME, luaopen_os, 0);
  keep_only(lua, LUA_OSLIBNAME, kClock);

  lua_getglobal(lua, LUA_STRLIBNAME);
  lua_pushnil(lua);
  lua_setfield(lua, -2, "dump");
  lua_pop(lua, 1);
  lua_pushliteral(lua, "");
  lua_getmetatable(lua, -1);
  lua_pushboolean(lua, 0);
  lua_setfield(lua, -2, "__metatable");  // otherwise a script could change all strings
  lua_pop(lua, 2);

  // A fixed seed, so that a script always gives the same experiment.
  lua_getglobal(lua, LUA_MATHLIBNAME);
  lua_getfield(lua, -1, "randomseed");
  lua_pushinteger(lua, 1);
  lua_call(lua, 1, 0);
  lua_pop(lua, 1);
}

void limit_instructions(lua_State* lua) {
  lua_sethook(lua, count_instructions, LUA_MASKCOUNT, kInstructionsBetweenLooks);
}

const std::vector<std::string>& global_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all(std::begin(kBase), std::end(kBase));
    for (const char* name : {"coroutine", "math", "os", "require", "string", "table", "utf8"})
      all.emplace_back(name);
    return all;
  }();
  return names;
}

const std::vector<std::string>& withheld_names() {
  static const std::vector<std::string> names = {
      "io",     "package", "debug",  "dofile",  "loadfile", "loadstring", "execute",
      "getenv", "remove",  "rename", "tmpname", "exit",     "dump",       "collectgarbage"};
  return names;
}
}  // namespace optrush
