#pragma once
#include <optional>
#include <vector>

#include "experiment/experiment.h"

namespace optrush {
/// Default precision of each stage, and default time limit of the whole search.
inline constexpr Until kSearchUntil = {.within = 0.02, .at_most_s = 1200};

/// Among which stacks the fastest is looked for: of each axis one rung, or none, on top of the experiment's
/// base. Experiment::until bounds the search.
struct SearchRequest {
  std::vector<std::vector<Rung>> axes;
  std::optional<double> memory_bytes;  ///< no stack may be predicted to need more
};

/// The experiment with each rung of the search by itself on top of the base.
Experiment each_alone(const Experiment&, const SearchRequest&);
}  // namespace optrush
