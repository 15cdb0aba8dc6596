#include "report/analysis/quantity_parts.h"

namespace optrush {
// A new number needs one entry in a part. tests/unit/report_golden_test.cpp writes the documentation of the
// columns from it.
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
