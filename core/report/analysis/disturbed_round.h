#pragma once
#include <string>
#include <vector>

#include "report/analysis/analysis.h"

namespace optrush {
/// A round of a row at less than half or more than twice the speed that its other rounds, and the other rows
/// of that round, let expect. What slows all rows of a round alike cancels in their ratios and is none.
struct DisturbedRound {
  std::string row;
  int64_t round = 0;
  double speed = 1;  ///< over what was to be expected
};
/// Of rows with kMinRounds rounds, in the rows' order.
std::vector<DisturbedRound> disturbed_rounds(const std::vector<Row>&);
/// A warning that names them; empty where there are none.
std::string disturbed_warning(const std::vector<DisturbedRound>&);
}  // namespace optrush
