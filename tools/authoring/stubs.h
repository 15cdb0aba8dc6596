#pragma once
#include <string>
#include <vector>

#include "plugin/description.h"

namespace optrush {
/// Editor stubs (---@meta) for everything that a script can call, generated from the binding table:
/// scripts/meta/optrush.lua. With plugins: also a class for the options of each, and an overload of
/// rush.rung.
std::string lua_stubs(const std::vector<PluginDescription>& plugins = {});
}  // namespace optrush
