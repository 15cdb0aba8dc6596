#pragma once
#include <functional>
#include <vector>

#include "measure/flops.h"
#include "measure/step_clock.h"
#include "optrush/json.h"

namespace optrush {
/// Called as a run goes on: one JSON object a line of metrics.jsonl.
using MetricsSink = std::function<void(const Json&)>;

/// {"data": seconds, ...}; null for a phase that the step did not have.
Json phases_of(const StepTime&);

/// The record of a run so far: steps, validations and saved states, in the form of a RunResult, each reported
/// to the sink as it comes. It lies beside every saved state, and an interrupted run takes it up.
class RunRecord {
 public:
  explicit RunRecord(const MetricsSink& sink) : sink_(sink) {}

  /// `executed`: FLOPs of this rank. Where nothing trains it throws: a loss or gradient norm that is not
  /// finite, a gradient norm of zero.
  void add_step(Json step, double executed);
  void add_validation(Json point);
  void add_saved(Json saved);
  /// All that a record had when this JSON was made of it.
  void take_up(const Json& before);

  const Json& steps() const { return steps_; }
  const Json& validations() const { return validation_; }
  Json to_json() const;
  /// Steps, what the timed ones come to, validations and saved states.
  void add_to(Json& result) const;
  /// Sums of FLOPs over the timed steps, over the sum of the tokens that they processed: "mfu" and
  /// "mfu_causal" by formula, "hfu" as this rank executed them.
  Json flops_per_token(const ModelFlops&) const;

 private:
  bool all_alike() const;

  const MetricsSink& sink_;
  Json steps_ = Json::array(), validation_ = Json::array(), saved_ = Json::array();
  std::vector<double> executed_;  ///< by step
};
}  // namespace optrush
