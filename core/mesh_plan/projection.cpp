#include "mesh_plan/projection.h"

#include "script/presets.h"

namespace optrush {
namespace {
constexpr int64_t kSmallest = 8, kLargest = 4096;

ProjectedRun project(const PublishedRun& run) {
  const Hardware hardware = hardware_preset(run.hardware);
  const auto devices = real(run.devices);
  if (run.has_mix()) {
    Mix mix = run.mix;
    return {&run, mix, cost_of(mix, run.problem, hardware).tokens_per_second / devices};
  }
  const MeshPlan plan = plan_mesh(run.problem, hardware, run.devices, PlanOrder::tokens);
  if (plan.fitting.empty()) return {&run, {}, 0};
  const PlannedMix& best = plan.fitting.front();
  return {&run, best.mix, best.cost.tokens_per_second / devices};
}
}  // namespace

std::vector<ProjectedSize> project_sizes(const TrainingProblem& problem, const Hardware& hardware) {
  std::vector<ProjectedSize> sizes;
  for (const char* name : {"llama-3.1-8b", "llama-3.1-70b"}) {
    TrainingProblem own = problem;
    own.model = llama_preset(name);
    for (int64_t devices = kSmallest; devices <= kLargest; devices *= 2)
      sizes.push_back({name, devices, plan_mesh(own, hardware, devices, PlanOrder::tokens)});
  }
  return sizes;
}

std::vector<ProjectedRun> project_published() {
  std::vector<ProjectedRun> runs;
  for (const PublishedRun& run : published_runs()) runs.push_back(project(run));
  return runs;
}
}  // namespace optrush
