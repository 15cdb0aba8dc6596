#pragma once
#include <string>
#include <vector>

#include "mesh_plan/projection.h"
#include "mesh_plan/table_parts.h"

namespace optrush {
/// Sizes up to thousands of devices, and what others published beside the projection of the same settings.
std::string projection_text(const std::vector<ProjectedSize>&, const std::vector<ProjectedRun>&, TableForm);
Json projection_json(const std::vector<ProjectedSize>&, const std::vector<ProjectedRun>&);
}  // namespace optrush
