#include <algorithm>
#include <cctype>
#include <sstream>
#include <vector>

#include "base/contains.h"
#include "base/files.h"
#include "base/suggest.h"
#include "base/text.h"
#include "script/context.h"
#include "script/host.h"
#include "script/sandbox.h"
#include "script/userdata.h"

namespace optrush {
namespace fs = std::filesystem;
namespace {
constexpr size_t kMostFrames = 8;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

/// The quoted word after `label`: "io" in "(global 'io')".
std::string quoted_after(const std::string& label, const std::string& message) {
  const std::string start = label + " '";
  const size_t begin = message.find(start);
  if (begin == std::string::npos) return {};
  const size_t first = begin + start.size();
  return message.substr(first, message.find('\'', first) - first);
}

std::string hint(const std::string& message) {
  for (const char* label : {"(global", "(field", "(method"}) {
    const std::string name = quoted_after(label, message);
    if (name.empty()) continue;
    if (name == "rush") return "start with: local rush = require \"optrush\"";
    if (contains(withheld_names(), name))
      return "scripts have no '" + name + "': they cannot read files, start programs or load binary code";
    if (const auto best = nearest(name, global_names()); label == std::string("(global") && !best.empty())
      return "did you mean '" + best + "'?";
  }
  if (message.find("stack overflow") != std::string::npos) return "check for endless recursion";
  if (message.find("runs without end") != std::string::npos)
    return "check for an endless loop: a script only describes runs";
  if (message.find("binary chunk") != std::string::npos) return "give Lua source code";
  if (message.starts_with("the error object is a ")) return "give error() a text";
  return {};
}

/// The frames of a traceback in Lua code, "x.lua:3: in function 'f'", without frames of C or of this program.
std::string short_frames(const std::string& traceback) {
  std::istringstream lines(traceback);
  std::string text, line;
  size_t count = 0;
  while (std::getline(lines, line)) {
    const size_t begin = line.find_first_not_of(" \t");
    if (begin == std::string::npos || line.starts_with("stack traceback") ||
        line.find("[C]") != std::string::npos)
      continue;
    if (++count > kMostFrames) return text + "\n  ...";
    text += "\n  " + line.substr(begin);
  }
  return text;
}

/// The text of a Lua file without a byte order mark. A first line that starts with '#' is emptied.
std::string chunk_source(const std::filesystem::path& file) {
  std::string text = read_file(file);
  if (text.starts_with(kByteOrderMark)) text.erase(0, kByteOrderMark.size());
  if (text.starts_with('#'))
    text.erase(0, std::min(text.find('\n'), text.size()));  // "#!/usr/bin/env optrush"
  return text;
}

/// Message handler for lua_pcall: stores the traceback in the context and passes the error on.
int keep_traceback(lua_State* lua) {
  if (lua_isstring(lua, 1) != 0 || luaL_getmetafield(lua, 1, "__tostring") != LUA_TNIL) {
    lua_settop(lua, 1);
    luaL_tolstring(lua, 1, nullptr);
  } else {
    lua_pushfstring(lua, "the error object is a %s value", luaL_typename(lua, 1));
  }
  luaL_traceback(lua, lua, nullptr, 1);
  Object& unused = push_object(lua);
  attempt(lua, unused, [&](Object&) {
    auto& [message, frames] = context_of(lua).traceback;
    const std::string now = lua_tolstring(lua, 2, nullptr);
    if (now == message)
      return;  // already passed on by a module; the first, innermost traceback is more informative
    message = now;
    frames = lua_tolstring(lua, 3, nullptr);
  });
  lua_settop(lua, 2);
  return 1;
}

/// The error for the user, from `status` and the error object at the top of the stack that lua_pcall left.
Error script_error(lua_State* lua, int status) {
  const ScriptContext& context = context_of(lua);
  if (status == LUA_ERRMEM)
    return Error(ErrorCode::out_of_memory,
                 "the script needs more than " + std::to_string(kMostScriptMemory >> 20U) + " MiB of memory",
                 "check for a table or string that grows in a loop: a script only describes runs",
                 context.script().filename());
  const char* text =
      lua_type(lua, -1) == LUA_TSTRING ? lua_tolstring(lua, -1, nullptr) : "an error without a message";
  const std::string message = text;
  if (context.last_error && message == context.last_error->what()) return *context.last_error;
  const bool traced = context.traceback.message == message;
  return Error(ErrorCode::script_error, message + (traced ? short_frames(context.traceback.frames) : ""),
               hint(message));
}

constexpr char kModules[] = "optrush.modules";  // registry table: values by path

/// "ladders.common" becomes "ladders/common.lua". Words joined by dots can't lead out of a folder.
fs::path file_of(const std::string& name) {
  std::string path;
  bool in_word = false, valid = true;
  for (const char c : name) {
    const bool letter = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-';
    valid = valid && (letter || (c == '.' && in_word));
    in_word = letter;
    path += c == '.' ? '/' : c;
  }
  if (!valid || !in_word)
    throw Error(ErrorCode::invalid_value, "'" + name + "' is not the name of a module",
                "write words joined by dots: require \"folder.file\" names a file in the script's folder or "
                "the library");
  return path + ".lua";
}

bool is_inside(const fs::path& file, const fs::path& folder) {
  return std::ranges::mismatch(folder, file).in1 == folder.end();
}

/// The canonical path of a module's file. Links are followed, but not out of the folder.
fs::path find_module(const std::string& name, const ScriptContext& context) {
  const fs::path file = file_of(name);
  std::vector<std::string> folders;
  for (const auto& folder :
       {context.script().parent_path(), context.options().library, context.experiments()}) {
    std::error_code error;
    const fs::path root = fs::canonical(folder, error);
    if (error || contains(folders, root.string())) continue;
    folders.push_back(root);
    fs::path found = fs::canonical(root / file, error);
    if (error || !fs::is_regular_file(found)) continue;
    if (is_inside(found, root)) return found;
    throw Error(ErrorCode::invalid_value,
                "module '" + name + "' is a link to a file outside of " + root.string(),
                "copy the file into the folder");
  }
  throw Error(ErrorCode::missing_file, "no module '" + name + "'",
              "looked for " + file.string() + " in " + join(folders, " and "));
}

/// The name of the file in messages: relative to the script's folder, or to the folder above the library.
std::string name_in_messages(const fs::path& file, const ScriptContext& context) {
  const fs::path folder = fs::canonical(context.script().parent_path());
  if (is_inside(file, folder)) return file.lexically_relative(folder);
  return file.lexically_relative(fs::canonical(context.options().library).parent_path());
}

/// The canonical path of the requested module, or "optrush".
Json resolve(lua_State* lua) {
  if (lua_type(lua, 1) != LUA_TSTRING)
    throw Error(ErrorCode::missing_value, "require needs the name of a module",
                "for example require \"optrush\"");
  size_t size = 0;
  const char* text = lua_tolstring(lua, 1, &size);
  const std::string name(text, size);
  return name == "optrush" ? name : find_module(name, context_of(lua)).string();
}

/// Marks the module as being loaded. Throws an Error if it already is.
Json begin_loading(const Json& path, ScriptContext& context) {
  const std::string name = name_in_messages(path.get<std::string>(), context);
  auto& loading = context.loading;
  if (const auto first = std::ranges::find(loading, name); first != loading.end()) {
    std::vector<std::string> circle(first, loading.end());
    circle.push_back(name);
    throw Error(ErrorCode::conflict, "modules require each other: " + join(circle, " -> "),
                "move their common code into a separate module");
  }
  Json chunk = {{"name", "@" + name}, {"source", chunk_source(path.get<std::string>())}};
  loading.push_back(name);
  return chunk;
}

/// Pushes the value of a module, or raises its error.
void execute(lua_State* lua, const Json& chunk) {
  const auto& source = chunk["source"].get_ref<const std::string&>();
  const auto& name = chunk["name"].get_ref<const std::string&>();
  lua_pushcfunction(lua, keep_traceback);
  int status = luaL_loadbufferx(lua, source.data(), source.size(), name.c_str(), "t");
  if (status == LUA_OK) status = lua_pcall(lua, 0, 1, -2);
  context_of(lua).loading.pop_back();
  if (status != LUA_OK) lua_error(lua);
  lua_remove(lua, -2);
}

int require(lua_State* lua) {
  lua_settop(lua, 1);
  Object& path = push_object(lua);  // both objects stay on the stack as long as their text is used
  Object& chunk = push_object(lua);
  if (!attempt(lua, path, [&](Object& slot) { slot = resolve(lua); })) raise(lua, path);
  const auto& key = std::get<Json>(path).get_ref<const std::string&>();
  luaL_getsubtable(lua, LUA_REGISTRYINDEX, kModules);
  lua_pushlstring(lua, key.data(), key.size());
  lua_pushvalue(lua, -1);
  if (lua_rawget(lua, -3) != LUA_TNIL) return 1;
  lua_pop(lua, 1);
  if (key == "optrush") {
    push_object(lua);
  } else {
    if (!attempt(lua, chunk,
                 [&](Object& slot) { slot = begin_loading(std::get<Json>(path), context_of(lua)); }))
      raise(lua, chunk);
    execute(lua, std::get<Json>(chunk));
  }
  if (lua_isnil(lua, -1)) {
    lua_pop(lua, 1);
    lua_pushboolean(lua, 1);  // a module without a value is still run only once
  }
  lua_pushvalue(lua, -1);
  lua_insert(lua, -4);
  lua_rawset(lua, -3);
  lua_settop(lua, -2);
  return 1;
}

int open_all(lua_State* lua) {
  open_safe_libraries(lua);
  register_classes(lua);
  lua_pushcfunction(lua, require);
  lua_setglobal(lua, "require");
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
