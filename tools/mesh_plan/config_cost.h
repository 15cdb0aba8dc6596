#pragma once
#include "mesh_plan/config_traffic.h"

namespace optrush::mesh_plan {
/// The seconds of a step by purpose. Communication that computation hides is left out.
struct ConfigCost {
  double compute = 0;  ///< forward, backward and recomputation of the slowest stage
  double bubble = 0;   ///< idle time of the pipeline, (p - 1) / v micro-batches (arXiv:2104.04473)
  double exposed = 0;  ///< communication that nothing hides, over all dimensions
  double optimizer = 0;
  double tokens_per_second = 0;     ///< of all devices
  double mfu = 0;                   ///< by the formula `mfu`; 0 if the peak is unknown
  std::vector<MixTraffic> traffic;  ///< of the slowest stage

  double step() const { return compute + bubble + exposed + optimizer; }
};

/// Seconds of one micro-batch in one rank's blocks and head, without communication.
struct PassSeconds {
  double forward = 0, backward = 0;  ///< recomputation counts as backward
};
PassSeconds pass_seconds(const ParallelConfig&, const TrainingProblem&, const StageShare&, const Hardware&);

/// Estimates a step from numbers: a projection if they come from a data sheet, and an estimate to compare
/// with a measurement if they were measured.
///
/// Reductions of tp are exposed. A shared expert hides every second exchange of rows of ep; the others are
/// exposed. The attention of a part hides the hops of cp. The passes of a step hide gradients and
/// parameters, except the first unit's gather and the last unit's reduction.
ConfigCost cost_of(const ParallelConfig&, const TrainingProblem&, const Hardware&);
}  // namespace optrush::mesh_plan
