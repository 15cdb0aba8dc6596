#pragma once
#include <vector>

#include "recipe/run_recipe.h"
#include "results/run_result.h"

namespace optrush {
/// The counters of plugins (Recipe::counter), over the timed steps of one rank.
class Counters {
 public:
  explicit Counters(const RunRecipe& recipe) : recipe_(recipe) {}

  /// Timed steps begin, or go on.
  void start();
  /// They are over, or something else runs between them. Errors name the plugin.
  void stop();
  /// In order of the recipe. Empty without any.
  std::vector<CounterResult> results(int64_t steps) const;

 private:
  std::vector<double> read() const;
  const RunRecipe& recipe_;
  std::vector<double> before_, last_, added_;
};

/// The counters of all ranks as one list, each number as its plugin wants it: their sum, mean or maximum.
std::vector<CounterResult> over_ranks(const std::vector<std::vector<CounterResult>>& ranks);
}  // namespace optrush
