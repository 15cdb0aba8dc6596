#pragma once
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "experiment/experiment.h"
#include "launch/fork_server.h"
#include "launch/run/result.h"
#include "launch/schedule/schedule.h"
#include "machine/gpu_cards.h"
#include "process/process.h"
#include "process/signals.h"

namespace optrush {
/// The plan of a variant, or the reason why it has none.
struct Planned {
  std::optional<Plan> plan;
  BadEnd failure = {};
  std::optional<Plan> skipped_plan;  ///< of one that lacks memory
  bool refused = false;  ///< the worker said what is wrong with it: it can't be, whatever is stacked on it
  bool lacks_memory = false;  ///< what it predicts does not fit into this machine
};

/// `optrush-worker plan` for one variant, in a process of its own: a plugin may throw, crash or hang. None
/// where a signal came first. `as_gpu`: that is planned for and need not be there.
std::optional<Planned> plan_variant(const Variant&, ForkServer&, const Limits&, Interrupts&,
                                    const std::optional<PlannedGpu>& as_gpu = std::nullopt);

/// How plans are made.
struct PlanRequest {
  ForkServer& workers;
  Limits limits;
  std::optional<PlannedGpu> as_gpu = {};  ///< that is planned for and need not be there
  /// Rungs that an earlier call found refused: those stay it that are not planned now.
  std::set<std::string> refused_before = {};
};
/// Why a variant has no plan.
struct NoPlan {
  int64_t variant = 0;
  BadEnd failure;
  std::optional<Plan> skipped_plan;  ///< of one that lacks memory, which is not run
};

/// Plans of the variants that are wanted, into `plans` by variant. What a ladder stacks on a refused rung is
/// put on the one below that, for which rungs below a wanted one are planned as well: `variants`, which the
/// schedule is of, change. `begins` is told of each variant
/// that a worker is started for; one whose runs are another's has its plan. None where a signal came first.
std::optional<std::vector<NoPlan>> plan_all(const Experiment&, std::vector<Variant>& variants,
                                            const Schedule&, Plans& plans, const PlanRequest&, Interrupts&,
                                            const std::function<void(const Variant&)>& begins);

/// The peak of a step in bytes, or what it takes at most, as the plan of this spec predicts it; none where it
/// does not, or there is no plan.
std::optional<int64_t> predicted_peak(const RunSpec&, ForkServer&, const Limits&, Interrupts&,
                                      const std::optional<PlannedGpu>& as_gpu = std::nullopt);

/// Environment of a worker: OpenMP's threads from the spec, otherwise from OMP_NUM_THREADS, otherwise `cores`
/// (0: OpenMP's own choice), sleeping while they wait, so that the threads of two OpenMP runtimes do not spin
/// against each other, and the variables of the spec.
Environment worker_environment(const RunSpec&, int64_t cores = 0);
}  // namespace optrush
