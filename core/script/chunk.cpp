#include "script/chunk.h"

#include <algorithm>
#include <sstream>
#include <vector>

#include "base/files.h"
#include "base/suggest.h"
#include "script/context.h"
#include "script/sandbox.h"
#include "script/userdata.h"

namespace optrush {
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
    if (std::ranges::count(withheld_names(), name) != 0)
      return "scripts have no '" + name + "': they cannot read files, start programs or load binary code";
    if (const auto best = nearest(name, global_names()); label == std::string("(global") && !best.empty())
      return "did you mean '" + best + "'?";
  }
  if (message.find("stack overflow") != std::string::npos) return "check for endless recursion";
  if (message.find("runs without end") != std::string::npos)
    return "check for an endless loop: a script only describes runs";
  if (message.find("binary chunk") != std::string::npos) return "give Lua source code";
  return {};
}

/// The frames of a traceback in Lua code, "x.lua:3: in function 'f'", without those of C and of this program.
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
}  // namespace

std::string chunk_source(const std::filesystem::path& file) {
  std::string text = read_file(file);
  if (text.starts_with(kByteOrderMark)) text.erase(0, kByteOrderMark.size());
  if (text.starts_with('#'))
    text.erase(0, std::min(text.find('\n'), text.size()));  // "#!/usr/bin/env optrush"
  return text;
}

int keep_traceback(lua_State* lua) {
  luaL_tolstring(lua, 1, nullptr);
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
}  // namespace optrush
