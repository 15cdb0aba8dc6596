#pragma once
#include <string>
#include <vector>

#include "plugin/description.h"

namespace optrush {
/// Editor stubs (---@meta) of everything that a script can call, made from the binding table:
/// scripts/meta/optrush.lua. With plugins: also a class for the options of each, and rush.rung's form for it.
std::string lua_stubs(const std::vector<PluginDescription>& plugins = {});
}  // namespace optrush
