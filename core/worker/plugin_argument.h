#pragma once
#include <string>

#include "optrush/spec.h"
#include "plugin/description.h"

namespace optrush {
/// "mine:rank=8,modules=q_proj,v_proj": a plugin and its options on the command line. The description
/// tells what a value is; what follows a list without a '=' goes on with it.
PluginUse parse_plugin_argument(const std::string&, const Catalogue&);
}  // namespace optrush
