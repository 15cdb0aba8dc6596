#include "script/bind.h"
#include "script/chunk.h"
#include "script/context.h"
#include "script/host.h"
#include "script/sandbox.h"
#include "script/userdata.h"

namespace optrush {
namespace {
int open_all(lua_State* lua) {
  open_safe_libraries(lua);
  register_classes(lua);
  open_require(lua);
  return 0;
}

void check_status(lua_State* lua, int status) {
  if (status == LUA_OK) return;
  if (const auto& failure = context_of(lua).host_failure) std::rethrow_exception(failure);
  throw script_error(lua, status);
}

/// Refuses a script that measures nothing, a mistake that would otherwise be unnoticed.
void check_ran(const ScriptContext& context) {
  if (context.drafts().empty())
    throw Error(ErrorCode::missing_value, "the script describes no experiment",
                "write rush.experiment { ... }, then exp:run():report()", context.script().filename());
  for (const auto& draft : context.drafts())
    if (!draft->ran)
      throw Error(ErrorCode::missing_value, "experiment '" + draft->experiment.name + "' is not run",
                  "end the script with exp:run():report()", draft->where);
}
}  // namespace

void run_script(const std::filesystem::path& script, ScriptHost& host, const ScriptOptions& options) {
  ScriptContext context(script, host, options);
  const std::string source = chunk_source(context.script());
  const std::string name = "@" + context.script().filename().string();
  const LuaState state(context);
  lua_State* lua = state.get();

  lua_pushcfunction(lua, open_all);
  check_status(lua, lua_pcall(lua, 0, 0, 0));
  limit_instructions(lua);
  lua_pushcfunction(lua, keep_traceback);
  check_status(lua, luaL_loadbufferx(lua, source.data(), source.size(), name.c_str(), "t"));
  check_status(lua, lua_pcall(lua, 0, 0, -2));
  if (context.host_failure) std::rethrow_exception(context.host_failure);
  check_ran(context);
}
}  // namespace optrush
