#pragma once
#include <functional>

#include "experiment/experiment.h"
#include "plugin/description.h"

namespace optrush {
/// Throws an Error if two stacked plugins conflict or one lacks a plugin that it requires. The Error names
/// both and the rung's place in the script.
void check_stack(const Variant&, const Catalogue&);

/// Throws an Error if `settings` request a dtype for parameters that is only available through a plugin; the
/// remedy names the plugin. The catalogue is read only in that case.
void check_dtype(const Json& settings, const std::function<Catalogue()>&, const std::string& where);
}  // namespace optrush
