#pragma once
#include <string>

#include "optrush/spec.h"
#include "plugin/description.h"

namespace optrush {
/// Parses a plugin with options from the command line: "mine:rank=8,modules=q_proj,v_proj". The plugin's
/// description gives the types. A part without '=' after a list continues the list.
PluginUse parse_plugin_argument(const std::string&, const Catalogue&);
}  // namespace optrush
