#pragma once
#include <functional>

#include "measure/step_clock.h"
#include "optrush/json.h"

namespace optrush {
/// Called as a run goes on: one JSON object a line of metrics.jsonl.
using MetricsSink = std::function<void(const Json&)>;

/// {"data": seconds, ...}; null for a phase that the step did not have.
Json phases_of(const StepTime&);

/// What a run has made so far: steps, validations and saved states, in the form of a RunResult, each told to
/// the sink as it comes. It lies beside every saved state, and an interrupted run takes it up.
class RunRecord {
 public:
  explicit RunRecord(const MetricsSink& sink) : sink_(sink) {}

  /// Where nothing trains it throws: a loss or gradient norm that is not finite, a gradient norm of zero.
  void add_step(Json step);
  void add_validation(Json point);
  void add_saved(Json saved);
  /// All that a record had when this JSON was made of it.
  void take_up(const Json& before);

  const Json& steps() const { return steps_; }
  Json to_json() const;
  /// Steps, medians over the timed ones, validations and saved states.
  void add_to(Json& result) const;

 private:
  const MetricsSink& sink_;
  Json steps_ = Json::array(), validation_ = Json::array(), saved_ = Json::array();
};
}  // namespace optrush
