#pragma once
#include "optrush/recipe.h"

namespace optrush::cuda_graphs {
/// Functions of a step that cannot be part of a CUDA graph, because their traits do not declare it: "the
/// plain optimizer", "'adapter' in linear".
std::vector<std::string> uncapturable(const Recipe&);
/// Throws an Error that names them, or if the run has too few warm-up steps.
void check_capturable(const Recipe&);
}  // namespace optrush::cuda_graphs
