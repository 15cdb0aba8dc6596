#pragma once
#include <string>
#include <vector>

#include "mesh_plan/estimates.h"
#include "mesh_plan/table_parts.h"

namespace optrush {
/// Estimated and measured steps of a report's rows.
std::string estimates_text(const std::vector<Estimate>&, const Hardware&, TableForm);
Json estimates_json(const std::vector<Estimate>&, const Hardware&);
}  // namespace optrush
