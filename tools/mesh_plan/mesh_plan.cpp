#include "mesh_plan/mesh_plan.h"

#include <algorithm>

namespace optrush::mesh_plan {
namespace {
bool better(const PlannedConfig& a, const PlannedConfig& b, PlanOrder order) {
  if (order == PlanOrder::memory) return a.memory.total() < b.memory.total();
  return a.cost.tokens_per_second > b.cost.tokens_per_second;
}

/// Finds the best schedule that fits. If none fits, records the one with the smallest need.
void add_best(const ParallelConfig& sharded, PlanOrder order, MeshPlan& plan) {
  const double usable = kUsableMemory * plan.hardware.memory;
  std::optional<PlannedConfig> best;
  std::optional<PlannedConfig> smallest;
  for (const ParallelConfig& mix : schedules_of(sharded, plan.problem)) {
    const ConfigMemory memory = memory_of(mix, plan.problem);
    if (memory.total() > usable) {
      if (!smallest || memory.total() < smallest->memory.total()) smallest = PlannedConfig{mix, memory, {}};
      continue;
    }
    PlannedConfig candidate{mix, memory, cost_of(mix, plan.problem, plan.hardware)};
    if (!best || better(candidate, *best, order)) best = std::move(candidate);
  }
  if (best) {
    plan.fitting.push_back(std::move(*best));
  } else if (smallest) {
    ++plan.too_large;
    if (!plan.smallest || smallest->memory.total() < plan.smallest->memory.total()) plan.smallest = smallest;
  }
}

/// A mesh with the plainest schedule: one sequence at a time.
ParallelConfig plainest(ParallelConfig mesh, const TrainingProblem& problem) {
  mesh.accumulation = std::max<int64_t>(1, problem.global_batch / mesh.batch_ranks());
  return mesh;
}
}  // namespace

PlannedConfig planned(const ParallelConfig& mix, const TrainingProblem& problem, const Hardware& hardware) {
  return {mix, memory_of(mix, problem), cost_of(mix, problem, hardware)};
}

MeshPlan plan_mesh(const TrainingProblem& problem, const Hardware& hardware, int64_t devices,
                   PlanOrder order) {
  MeshPlan plan{.problem = problem, .hardware = hardware, .devices = devices};
  for (const ParallelConfig& mesh : meshes_of(devices, problem.model.n_experts)) {
    if (const std::string reason = refusal(plainest(mesh, problem), problem); !reason.empty()) {
      ++plan.refused[reason];
      continue;
    }
    for (const ParallelConfig& sharded : shardings_of(mesh, hardware.per_node))
      add_best(sharded, order, plan);
  }
  std::ranges::stable_sort(plan.fitting, [&](const auto& a, const auto& b) { return better(a, b, order); });
  return plan;
}
}  // namespace optrush::mesh_plan
