#pragma once
#include <string>
#include <vector>

#include "report/analysis/analysis.h"

namespace optrush {
/// A round of a row with less than half or more than twice the expected speed, which follows from its other
/// rounds and the other rows of the round. A slowdown of all rows in a round cancels in their ratios and does
/// not count.
struct DisturbedRound {
  std::string row;
  int64_t round = 0;
  double speed = 1;  ///< speed relative to the expected speed
};
/// The disturbed rounds of rows with at least kMinRounds rounds, in order of the rows.
std::vector<DisturbedRound> disturbed_rounds(const std::vector<Row>&);
/// A warning that names them; "" if there are none.
std::string disturbed_warning(const std::vector<DisturbedRound>&);
}  // namespace optrush
