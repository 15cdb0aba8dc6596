#pragma once
#include <filesystem>
#include <string>

#include "optrush/error.h"

struct lua_State;

namespace optrush {
class ScriptContext;

/// Text of a Lua file, without a byte order mark, its first line emptied where it starts with '#'.
std::string chunk_source(const std::filesystem::path&);

/// Message handler for lua_pcall: notes in the context where the error came from, and passes it on.
int keep_traceback(lua_State*);

/// The error message for the user: `status` and the error object at the top of the stack as lua_pcall left
/// them.
Error script_error(lua_State*, int status);
}  // namespace optrush
