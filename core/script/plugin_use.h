#pragma once
#include <string>
#include <vector>

#include "script/context.h"
#include "script/lua_value.h"

namespace optrush {
/// A plugin with options, checked against its description. An Error describes the mistake in the script.
/// `options` may be null.
PluginUse plugin_use(const std::string& name, const LuaValue* options, ScriptContext&,
                     const std::string& where);
/// The same for a list of "name" and { "name", { options } }.
std::vector<PluginUse> plugin_uses(const std::vector<LuaValue>& list, ScriptContext&,
                                   const std::string& where);
}  // namespace optrush
