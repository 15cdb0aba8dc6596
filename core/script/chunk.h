#pragma once
#include <filesystem>
#include <string>

#include "optrush/error.h"

struct lua_State;

namespace optrush {
class ScriptContext;

/// The text of a Lua file without a byte order mark. A first line that starts with '#' is emptied.
std::string chunk_source(const std::filesystem::path&);

/// Message handler for lua_pcall: stores the traceback in the context and passes the error on.
int keep_traceback(lua_State*);

/// The error for the user, from `status` and the error object at the top of the stack that lua_pcall left.
Error script_error(lua_State*, int status);
}  // namespace optrush
