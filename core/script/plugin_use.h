#pragma once
#include <string>
#include <vector>

#include "script/context.h"
#include "script/lua_value.h"

namespace optrush {
/// A use of a plugin, checked against its description; throws an Error that describes the mistake in the
/// script. `options` may be null.
PluginUse plugin_use(const std::string& name, const LuaValue* options, ScriptContext&,
                     const std::string& where);
/// The same from a list of "name" and { "name", { options } }.
std::vector<PluginUse> plugin_uses(const std::vector<LuaValue>& list, ScriptContext&,
                                   const std::string& where);
}  // namespace optrush
