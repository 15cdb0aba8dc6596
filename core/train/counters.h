#pragma once
#include <vector>

#include "optrush/json.h"
#include "recipe/run_recipe.h"

namespace optrush {
/// The counters of plugins (Recipe::counter), over the timed steps of one rank.
class Counters {
 public:
  explicit Counters(const RunRecipe& recipe) : recipe_(recipe) {}

  /// Timed steps begin, or go on.
  void start();
  /// They are over, or something else runs between them. Errors name the plugin.
  void stop();
  /// "counters" of a result: by plugin, a list of {name, unit, per, over_ranks, value}. Empty without any.
  Json to_json(int64_t steps) const;

 private:
  std::vector<double> read() const;
  const RunRecipe& recipe_;
  std::vector<double> before_, last_, added_;
};

/// One "counters" for all ranks, each number as its plugin wants it: their sum, mean or maximum.
Json over_ranks(const std::vector<Json>& counters);
}  // namespace optrush
