#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "mesh_plan/config_cost.h"

namespace optrush::mesh_plan {
/// Share of a device's memory that a mix may be predicted to take. The rest is for the context, the buffers
/// of collectives and fragments.
inline constexpr double kUsableMemory = 0.92;

struct PlannedConfig {
  ParallelConfig mix;
  ConfigMemory memory;
  ConfigCost cost;
};

enum class PlanOrder : uint8_t { tokens, memory };

/// Which mixes of a number of devices fit.
struct MeshPlan {
  TrainingProblem problem;
  Hardware hardware;
  int64_t devices = 1;
  /// Each mesh with each sharding once, in its best schedule that fits; best first.
  std::vector<PlannedConfig> fitting;
  size_t too_large = 0;                   ///< meshes and shardings that fit in no schedule
  std::optional<PlannedConfig> smallest;  ///< of them, the one that needs the least
  std::map<std::string, size_t> refused;  ///< meshes by the reason
};

MeshPlan plan_mesh(const TrainingProblem&, const Hardware&, int64_t devices, PlanOrder);

PlannedConfig planned(const ParallelConfig&, const TrainingProblem&, const Hardware&);
}  // namespace optrush::mesh_plan
