#pragma once
#include <array>
#include <memory>

#include "measure/operator_costs.h"
#include "measure/step_clock.h"
#include "optrush/json.h"
#include "optrush/param.h"
#include "spec/spec_json.h"

namespace optrush {
/// Counts what the operators of a step cost, by phase, on any thread, from construction to stop(): launches,
/// host waits, copies, casts, bytes and FLOPs as operator_costs.h says. One at a time in a process.
class StepCosts {
 public:
  /// Counts work on `device`. Casts of `params` are also counted for each.
  StepCosts(const Params& params, at::Device device);
  ~StepCosts();
  StepCosts(const StepCosts&) = delete;
  StepCosts& operator=(const StepCosts&) = delete;

  /// The phase that operators belong to from now on.
  void enter(Bucket);
  void stop();

  OperatorCost of(Bucket) const;
  /// Of the whole step, the host's own bookkeeping apart.
  OperatorCost total() const;
  double flops() const;
  /// The part of attention inside of documents.
  double document_flops() const;
  /// The largest number of times that one parameter was cast, and how many were cast at all.
  int64_t most_casts_of_a_parameter() const;
  int64_t cast_parameters() const;

  /// "costs" of a result and of a plan (docs/schema/run_result.schema.json). A CPU copies nothing to itself:
  /// its waits and copies are null.
  Json to_json() const;

  class Ledger;

 private:
  std::shared_ptr<Ledger> ledger_;
  at::Device device_;
  uint64_t handle_ = 0;
};

/// A clock that also tells the counter which phase begins.
class CountedClock final : public StepClock {
 public:
  CountedClock(StepClock& clock, StepCosts& costs) : clock_(clock), costs_(costs) {}
  void enter(Bucket bucket) override {
    costs_.enter(bucket);
    clock_.enter(bucket);
  }
  void end_step() override { clock_.end_step(); }
  std::optional<Bucket> present() const override { return clock_.present(); }
  std::optional<StepTime> take(bool wait) override { return clock_.take(wait); }

 private:
  StepClock& clock_;
  StepCosts& costs_;
};
}  // namespace optrush
