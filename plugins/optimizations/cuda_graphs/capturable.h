#pragma once
#include "optrush/recipe.h"

namespace optrush::cuda_graphs {
/// What of a step's functions can't be part of a CUDA graph, because its traits don't say that it can:
/// "the plain optimizer", "'adapter' in linear".
std::vector<std::string> uncapturable(const Recipe&);
/// An Error that names them, and a run with too few warm-up steps.
void check_capturable(const Recipe&);
}  // namespace optrush::cuda_graphs
