#pragma once
#include <string>
#include <vector>

#include "plugin/description.h"

namespace optrush {
/// Editor stubs (---@meta) of everything that a script can call, made from the binding table:
/// scripts/meta/optrush.lua.
std::string lua_stubs();
/// The same for the options of plugins: a class for each, and rush.rung's form for it.
std::string lua_plugin_stubs(const std::vector<PluginDescription>&);
}  // namespace optrush
