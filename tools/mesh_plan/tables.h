#pragma once
#include <string>
#include <vector>

#include "mesh_plan/estimates.h"
#include "mesh_plan/mesh_plan.h"
#include "mesh_plan/projection.h"

namespace optrush::mesh_plan {
enum class TableForm : uint8_t { text, markdown };

/// The share of the peak; a dash if the peak is unknown.
std::string mfu_text(double mfu);

/// The best mixes, followed by the refused ones and every assumption.
std::string plan_text(const MeshPlan&, const std::string& model, size_t top, TableForm);
Json plan_json(const MeshPlan&, const std::string& model, size_t top);

/// Estimated and measured steps of the rows of a report.
std::string estimates_text(const std::vector<Estimate>&, const Hardware&, TableForm);
Json estimates_json(const std::vector<Estimate>&, const Hardware&);

/// Sizes up to thousands of devices, and published figures beside the projection of the same settings.
std::string projection_text(const std::vector<ProjectedSize>&, const std::vector<ProjectedRun>&, TableForm);
Json projection_json(const std::vector<ProjectedSize>&, const std::vector<ProjectedRun>&);
}  // namespace optrush::mesh_plan
