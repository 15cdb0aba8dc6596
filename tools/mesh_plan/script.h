#pragma once
#include <string>
#include <vector>

#include "mesh_plan/mesh_plan.h"
#include "optrush/spec.h"

namespace optrush::mesh_plan {
/// The plugins that connect the ranks of a configuration.
std::vector<PluginUse> strategies_of(const ParallelConfig&, const TrainingProblem&);

/// The plugins that the plan assumes within a rank: types, fused operators, recomputation.
std::vector<PluginUse> operators_of(const ParallelConfig&, const TrainingProblem&);

/// The Lua script that trains row `row` (from 1) of a plan. `model`: the words of --model.
std::string script_text(const MeshPlan&, size_t row, const std::vector<std::string>& model);
}  // namespace optrush::mesh_plan
