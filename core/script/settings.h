#pragma once
#include <string>
#include <vector>

#include "experiment/external.h"
#include "script/context.h"
#include "script/lua_value.h"

namespace optrush {
/// The settings of a spec in a table of rush.experiment or rush.rung, as far as given.
Json settings_of(const LuaTable&);
/// Throws an Error if the settings request a dtype of parameters that is only available through a plugin.
/// Called before the check of arguments, which does not know plugins.
void check_dtype_of(const LuaValue& settings, ScriptContext&, const std::string& where);
/// Returns `text`. An Error names `what` if it is empty or would break a line of a report.
std::string one_line(const std::string& text, const std::string& what);
/// The program that a table of rush.experiment or rush.external describes. `who` names it in messages.
External program_of(const LuaTable&, const std::string& who, const ScriptContext&, const std::string& where);
/// A plugin with options (or null), checked against its description.
PluginUse plugin_use(const std::string& name, const LuaValue* options, ScriptContext&,
                     const std::string& where);
/// The same for a list of "name" and { "name", { options } }.
std::vector<PluginUse> plugin_uses(const std::vector<LuaValue>& list, ScriptContext&,
                                   const std::string& where);
}  // namespace optrush
