#pragma once
#include <vector>

#include "recipe/run_recipe.h"
#include "results/run_result.h"

namespace optrush {
/// Reads the counters of plugins (Recipe::counter) over the timed steps of this rank.
class Counters {
 public:
  explicit Counters(const RunRecipe& recipe) : recipe_(recipe) {}

  /// Called when timed steps start or resume.
  void start();
  /// Called when timed steps end or pause. Errors name the plugin.
  void stop();
  /// One result per counter, in order of the recipe.
  std::vector<CounterResult> results(int64_t steps) const;

 private:
  std::vector<double> read() const;
  const RunRecipe& recipe_;
  std::vector<double> before_, last_, added_;
};

/// Combines the counters of all ranks: the sum, mean or maximum, as the plugin declares.
std::vector<CounterResult> over_ranks(const std::vector<std::vector<CounterResult>>& ranks);
}  // namespace optrush
