#pragma once

namespace optrush {
class Recipe;

/// Counts on the device how many rows each expert gets in training, and reports how far the routers are from
/// sending each expert as many.
void count_rows_of_experts(Recipe&);
}  // namespace optrush
