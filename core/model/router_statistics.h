#pragma once

namespace optrush {
class Recipe;

/// Counts on the device how many rows each expert gets during training, and reports how far the routers are
/// from an equal distribution.
void count_rows_of_experts(Recipe&);
}  // namespace optrush
