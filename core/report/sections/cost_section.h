#pragma once
#include <string>
#include <vector>

#include "report/analysis/step_cost.h"
#include "report/sections/document.h"

namespace optrush {
/// rung | launches | host waits | copies | casts | of weights | elementwise | matmuls | attention | peak,
/// and reserved where a plan is for a GPU
Table cost_table(const std::vector<CostLine>&);
/// What the numbers of the table mean, one sentence each.
std::vector<std::string> cost_remarks(const std::vector<CostLine>&);
/// "What a step costs a GPU" in a report.
Section cost_section(const Analysis&);
}  // namespace optrush
