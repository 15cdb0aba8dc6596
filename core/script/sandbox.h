#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

struct lua_State;

namespace optrush {
// A guard rail against accidents, not a boundary: experiments are trusted code (docs/reference/lua.md).

inline constexpr size_t kMostScriptMemory = size_t{256} << 20U;

class ScriptContext;

/// A Lua state of a context, whose memory has a limit.
class LuaState {
 public:
  explicit LuaState(ScriptContext&);
  lua_State* get() const { return state_.get(); }

 private:
  struct Close {
    void operator()(lua_State*) const;
  };
  std::unique_ptr<size_t> used_;  // stays in place: the allocator points to it
  std::unique_ptr<lua_State, Close> state_;
};

/// Opens what a script may use of Lua's library. May raise a Lua error.
void open_safe_libraries(lua_State*);
/// From now on the script ends after ScriptOptions::most_instructions, in coroutines as well, whatever it
/// catches.
void limit_instructions(lua_State*);

/// Globals that a script has, and names of the stock library that it lacks, for hints.
const std::vector<std::string>& global_names();
const std::vector<std::string>& withheld_names();
}  // namespace optrush
