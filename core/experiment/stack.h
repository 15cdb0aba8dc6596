#pragma once
#include "experiment/experiment.h"
#include "plugin/description.h"

namespace optrush {
/// An Error where two stacked plugins conflict or one lacks a plugin that it requires. It names both and the
/// rung's place in the script.
void check_stack(const Variant&, const Catalogue&);
}  // namespace optrush
