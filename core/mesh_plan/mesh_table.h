#pragma once
#include <string>

#include "mesh_plan/table_parts.h"

namespace optrush {
/// The best mixes, and below them what was refused and every assumption.
std::string plan_text(const MeshPlan&, const std::string& model, size_t top, TableForm);
Json plan_json(const MeshPlan&, const std::string& model, size_t top);
}  // namespace optrush
