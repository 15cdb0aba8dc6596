#pragma once
#include <optional>
#include <vector>

#include "experiment/experiment.h"

namespace optrush {
/// Among which stacks the fastest is looked for: of each axis one rung, or none, on top of the experiment's
/// base.
struct SearchRequest {
  std::vector<std::vector<Rung>> axes;
  std::optional<double> memory_bytes;                 ///< no stack may be foreseen to need more
  Until until = {.within = 0.02, .at_most_s = 1200};  ///< of each interval, and for everything
};

/// The experiment with each rung of the search by itself on top of the base.
Experiment each_alone(const Experiment&, const SearchRequest&);
}  // namespace optrush
