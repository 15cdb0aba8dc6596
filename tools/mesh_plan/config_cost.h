#pragma once
#include "mesh_plan/config_traffic.h"

namespace optrush::mesh_plan {
/// The seconds of a step by purpose, without communication that computation hides.
struct ConfigCost {
  double compute = 0;  ///< forward, backward and recomputation of the slowest stage
  double bubble = 0;   ///< that the pipeline waits, (p - 1) / v micro-batches (arXiv:2104.04473)
  double exposed = 0;  ///< communication that is waited for, over all dimensions
  double optimizer = 0;
  double tokens_per_second = 0;     ///< of all devices
  double mfu = 0;                   ///< by the formula `mfu`; 0: the peak is unknown
  std::vector<MixTraffic> traffic;  ///< of the slowest stage

  double step() const { return compute + bubble + exposed + optimizer; }
};

/// Seconds of one micro-batch's passes through one rank's blocks and head, without communication.
struct PassSeconds {
  double forward = 0, backward = 0;  ///< the backward with what runs again
};
PassSeconds pass_seconds(const ParallelConfig&, const TrainingProblem&, const StageShare&, const Hardware&);

/// The estimate of a step. A pure function of numbers: with the data sheet's it is a projection, with a
/// machine's measured ones an estimate to compare with a measurement.
/// Sums of tp are waited for; every second exchange of rows of ep hides behind a shared expert, and the
/// others are waited for; hops of cp hide behind the attention of a part; gradients and parameters hide
/// behind the passes of their step, but for the first unit's gather and the last unit's sum.
ConfigCost cost_of(const ParallelConfig&, const TrainingProblem&, const Hardware&);
}  // namespace optrush::mesh_plan
