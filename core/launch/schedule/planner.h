#pragma once
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "experiment/experiment.h"
#include "launch/fork_server.h"
#include "launch/schedule/schedule.h"
#include "machine/gpu_cards.h"
#include "process/process.h"
#include "process/signals.h"
#include "results/status.h"

namespace optrush {
/// The plan of a variant, or the reason why it has none.
struct Planned {
  std::optional<Plan> plan;
  BadEnd failure = {};
  std::optional<Plan> skipped_plan;  ///< the plan of a variant that lacks memory or disk space
  bool refused = false;              ///< the worker found an error that rungs above it cannot remove
  bool lacks_memory = false;         ///< the predicted memory does not fit into this machine
};

struct PlanRequest {
  ForkServer& workers;
  Limits limits;
  std::optional<PlannedGpu> as_gpu = {};  ///< the GPU to plan for, which need not exist here
  /// Rungs that an earlier call found refused. They stay refused if this call does not plan them.
  std::set<std::string> refused_before = {};
  /// The report's folder, whose disk must have space for saved states; "": not checked.
  std::filesystem::path folder = {};
};
/// Runs `optrush-worker plan` for one variant in a separate process, because a plugin may throw, crash or
/// hang. Returns none if a signal came first.
std::optional<Planned> plan_variant(const Variant&, const PlanRequest&, Interrupts&);

/// The wanted variants without a plan.
using NoPlans = std::map<int64_t, Planned>;
/// Plans the wanted variants and stores the plans in `plans` by variant. If a rung of a ladder is refused,
/// the rungs above it are stacked on the rung below it, so `variants`, to which the schedule refers, change,
/// and rungs below a wanted one are also planned. A variant that shares the runs of another variant gets its
/// plan. `begins` is called before a worker is started. Returns none if a signal came first.
std::optional<NoPlans> plan_all(const Experiment&, std::vector<Variant>& variants, const Schedule&,
                                Plans& plans, const PlanRequest&, Interrupts&,
                                const std::function<void(const Variant&)>& begins);

/// The peak of a step in bytes, or an upper bound of it, as the plan of this spec predicts it. None if there
/// is no prediction or no plan.
std::optional<int64_t> predicted_peak(const RunSpec&, const PlanRequest&, Interrupts&);
}  // namespace optrush
