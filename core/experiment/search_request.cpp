#include "experiment/search_request.h"

namespace optrush {
Experiment each_alone(const Experiment& experiment, const SearchRequest& request) {
  Experiment alone = experiment;
  Part ladder;
  for (const auto& axis : request.axes)
    for (const Rung& rung : axis) {
      ladder.rungs.push_back(rung);
      ladder.rungs.back().over = "base";
    }
  alone.parts = {ladder};
  return alone;
}
}  // namespace optrush
