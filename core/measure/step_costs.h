#pragma once
#include <memory>
#include <optional>

#include "measure/operator_costs.h"
#include "measure/step_clock.h"
#include "optrush/json.h"
#include "optrush/param.h"
#include "spec/spec_json.h"

namespace optrush {
/// Counts the costs of the operators of a step by phase, on any thread, from construction to stop():
/// launches, host waits, copies, casts, bytes and FLOPs (operator_costs.h). Only one may exist in a process.
class StepCosts {
 public:
  /// Counts work on `device`. Casts of `params` are also counted per parameter.
  StepCosts(const Params& params, at::Device device);
  ~StepCosts();
  StepCosts(const StepCosts&) = delete;
  StepCosts& operator=(const StepCosts&) = delete;

  /// Sets the phase of the following operators.
  void enter(Bucket);
  /// The same for a WatchedClock. Valid while this object lives.
  WatchedClock::Watch watch() {
    return [this](std::optional<Bucket> bucket) {
      if (bucket) enter(*bucket);
    };
  }
  void stop();

  /// Costs of the whole step, without the host's bookkeeping.
  OperatorCost total() const;

  /// "costs" of a result and of a plan. On a CPU, waits and copies are null.
  Json to_json() const;

  struct Ledger;

 private:
  std::shared_ptr<Ledger> ledger_;
  uint64_t handle_ = 0;
};
}  // namespace optrush
