#pragma once
#include <functional>

#include "experiment/experiment.h"
#include "plugin/description.h"

namespace optrush {
/// An Error where two stacked plugins conflict or one lacks a plugin that it requires. It names both and the
/// rung's place in the script.
void check_stack(const Variant&, const Catalogue&);

/// An Error where `settings` ask for a type of parameters that none has but that a plugin computes in: the
/// cure names the plugin. The catalogue is read in that case alone.
void check_dtype(const Json& settings, const std::function<Catalogue()>&, const std::string& where);
}  // namespace optrush
