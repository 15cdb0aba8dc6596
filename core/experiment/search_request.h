#pragma once
#include <optional>
#include <vector>

#include "experiment/experiment.h"

namespace optrush {
/// Default precision of each stage, and default time limit of the whole search.
inline constexpr Until kSearchUntil = {.within = 0.02, .at_most_s = 1200};

/// The stacks of a search: of each axis one rung or none, on top of the experiment's base. Experiment::until
/// limits the search.
struct SearchRequest {
  std::vector<std::vector<Rung>> axes;
  std::optional<double> memory_bytes;  ///< limit for the predicted memory of a stack
};

/// The experiment with each rung of the search alone on top of the base.
Experiment each_alone(const Experiment&, const SearchRequest&);
}  // namespace optrush
