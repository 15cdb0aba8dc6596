#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "mesh_plan/config_cost.h"

namespace optrush::mesh_plan {
/// The share of a device's memory that predictions may use. The rest is for the context, the buffers of
/// collectives and fragmentation.
inline constexpr double kUsableMemory = 0.92;

struct PlannedConfig {
  ParallelConfig mix;
  ConfigMemory memory;
  ConfigCost cost;
};

enum class PlanOrder : uint8_t { tokens, memory };

/// The mixes of a number of devices that fit.
struct MeshPlan {
  TrainingProblem problem;
  Hardware hardware;
  int64_t devices = 1;
  /// Each mesh with each sharding once, with its best schedule that fits, in order of speed.
  std::vector<PlannedConfig> fitting;
  size_t too_large = 0;                   ///< meshes and shardings without a schedule that fits
  std::optional<PlannedConfig> smallest;  ///< the one of them with the smallest need
  std::map<std::string, size_t> refused;  ///< number of meshes by reason
};

MeshPlan plan_mesh(const TrainingProblem&, const Hardware&, int64_t devices, PlanOrder);

PlannedConfig planned(const ParallelConfig&, const TrainingProblem&, const Hardware&);
}  // namespace optrush::mesh_plan
