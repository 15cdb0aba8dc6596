#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

struct lua_State;

namespace optrush {
// Protects against accidents and not against attacks: experiments are trusted code (docs/reference/lua.md).

inline constexpr size_t kMostScriptMemory = size_t{256} << 20U;

class ScriptContext;

/// The Lua state of a context, with a memory limit.
class LuaState {
 public:
  explicit LuaState(ScriptContext&);
  lua_State* get() const { return state_.get(); }

 private:
  struct Close {
    void operator()(lua_State*) const;
  };
  std::unique_ptr<size_t> used_;  // on the heap, because the allocator refers to it
  std::unique_ptr<lua_State, Close> state_;
};

/// Opens the parts of Lua's library that scripts may use. May raise a Lua error.
void open_safe_libraries(lua_State*);
/// Ends the script after ScriptOptions::most_instructions, also in coroutines and despite pcall.
void limit_instructions(lua_State*);

/// The globals of a script, and the names of Lua's library that it lacks, for hints.
const std::vector<std::string>& global_names();
const std::vector<std::string>& withheld_names();
}  // namespace optrush
