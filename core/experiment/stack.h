#pragma once
#include <functional>

#include "experiment/experiment.h"
#include "plugin/description.h"

namespace optrush {
/// Throws an Error if stacked plugins conflict or lack a plugin that they require. It lists each conflict
/// with both plugins, and with the place of the first rung that has it.
void check_stacks(const std::vector<Variant>&, const Catalogue&);

/// Throws an Error if `settings` request a dtype for parameters that is only available through a plugin; the
/// remedy names the plugin. The catalogue is read only in that case.
void check_dtype(const Json& settings, const std::function<Catalogue()>&, const std::string& where);
}  // namespace optrush
