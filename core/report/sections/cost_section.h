#pragma once
#include <string>
#include <vector>

#include "report/analysis/step_cost.h"
#include "report/sections/document.h"

namespace optrush {
/// Columns: rung | launches | host waits | copies | casts | of weights | elementwise | matmuls | attention |
/// peak, and reserved if a plan is for a GPU.
Table cost_table(const std::vector<CostLine>&);
/// Explanations of the table, one sentence each.
std::vector<std::string> cost_remarks(const std::vector<CostLine>&);
/// The section "What a step costs a GPU" of a report.
Section cost_section(const Analysis&);
}  // namespace optrush
