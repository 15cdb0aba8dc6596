#include "report/analysis/quantity_parts.h"

namespace optrush {
// One entry of a part is all that a new number takes; tests/unit/report_golden_test.cpp writes the columns'
// docs from it.
const std::vector<Quantity>& quantities() {
  static const std::vector<Quantity> all = [] {
    std::vector<Quantity> list;
    for (auto* part : {rung_quantities, speed_quantities, memory_quantities, hardware_quantities,
                       phase_quantities, step_cost_quantities, loss_quantities, run_cost_quantities,
                       published_quantities, operator_quantities}) {
      const std::vector<Quantity> quantities = part();
      list.insert(list.end(), quantities.begin(), quantities.end());
    }
    return list;
  }();
  return all;
}
}  // namespace optrush
