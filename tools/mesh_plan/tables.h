#pragma once
#include <string>
#include <vector>

#include "mesh_plan/estimates.h"
#include "mesh_plan/mesh_plan.h"
#include "mesh_plan/projection.h"

namespace optrush::mesh_plan {
enum class TableForm : uint8_t { text, markdown };

/// Share of the peak; a dash where that is unknown.
std::string mfu_text(double mfu);

/// The best mixes, and below them what was refused and every assumption.
std::string plan_text(const MeshPlan&, const std::string& model, size_t top, TableForm);
Json plan_json(const MeshPlan&, const std::string& model, size_t top);

/// Estimated and measured steps of a report's rows.
std::string estimates_text(const std::vector<Estimate>&, const Hardware&, TableForm);
Json estimates_json(const std::vector<Estimate>&, const Hardware&);

/// Sizes up to thousands of devices, and what others published beside the projection of the same settings.
std::string projection_text(const std::vector<ProjectedSize>&, const std::vector<ProjectedRun>&, TableForm);
Json projection_json(const std::vector<ProjectedSize>&, const std::vector<ProjectedRun>&);
}  // namespace optrush::mesh_plan
