#pragma once
#include <string>

#include "script/context.h"
#include "script/lua_value.h"

namespace optrush {
/// The settings of a spec in a table of rush.experiment or rush.rung: {"model", "data", "train", "device",
/// "threads", "env", "timeout_s"}, as far as given.
Json settings_of(const LuaTable&);
/// An Error where the settings in a table ask for a type of parameters that is a plugin's to compute in. It
/// comes before the check of arguments, which knows no plugins.
void check_dtype_of(const LuaValue& settings, ScriptContext&, const std::string& where);
/// `text`, or an Error where it is empty or would break a line of a report. `what` names it.
std::string one_line(const std::string& text, const std::string& what);
}  // namespace optrush
