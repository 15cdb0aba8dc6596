#pragma once
#include <functional>
#include <vector>

#include "measure/flops.h"
#include "measure/step_clock.h"
#include "optrush/json.h"
#include "results/run_result.h"

namespace optrush {
/// Called as a run goes on: one JSON object a line of metrics.jsonl.
using MetricsSink = std::function<void(const Json&)>;

/// Seconds by name; none for a phase that the step did not have.
Phases phases_of(const StepTime&);

/// The steps, validations and saved states of a run so far. Each is told to the sink as it comes. It lies
/// beside every saved state, and an interrupted run takes it up.
class RunRecord {
 public:
  explicit RunRecord(const MetricsSink& sink) : sink_(sink) {}

  /// `executed`: FLOPs of this rank.
  void add_step(StepResult step, double executed);
  void add_validation(ValidationPoint point);
  void add_saved(SavedPoint saved);
  /// All that a record had when this JSON was made of it.
  void take_up(const Json& before);

  const std::vector<StepResult>& steps() const { return steps_; }
  const std::vector<ValidationPoint>& validations() const { return validations_; }
  /// With `saved` as one more saved state.
  Json to_json(const SavedPoint& saved) const;
  /// Steps, what the timed ones come to, validations and saved states.
  void add_to(RunResult& result) const;
  /// FLOPs a token: sums of FLOPs over the timed steps, over the sum of the tokens that they processed. Those
  /// of `hfu` are what this rank executed.
  void add_flops(const ModelFlops&, RunResult& result) const;

 private:
  bool all_alike() const;
  template <class T>
  void tell(const std::string& event, const T& what) const;

  const MetricsSink& sink_;
  std::vector<StepResult> steps_;
  std::vector<ValidationPoint> validations_;
  std::vector<SavedPoint> saved_;
  std::vector<double> executed_;  ///< by step
  bool taking_up_ = false;        ///< what comes was made by an earlier process
};
}  // namespace optrush
