#include <algorithm>
#include <cctype>

#include "base/files.h"
#include "base/suggest.h"
#include "script/bind.h"
#include "script/chunk.h"
#include "script/context.h"
#include "script/userdata.h"

namespace optrush {
namespace fs = std::filesystem;
namespace {
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
  for (const auto& folder : {context.script().parent_path(), context.options().library}) {
    std::error_code error;
    const fs::path root = fs::canonical(folder, error);
    if (error) continue;
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
    push_module(lua);
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
}  // namespace

void open_require(lua_State* lua) {
  lua_pushcfunction(lua, require);
  lua_setglobal(lua, "require");
}
}  // namespace optrush
