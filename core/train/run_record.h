#pragma once
#include <functional>
#include <vector>

#include "measure/flops.h"
#include "measure/step_clock.h"
#include "optrush/json.h"
#include "results/run_result.h"
#include "train/run_log.h"

namespace optrush {
/// Receives the events of a run, one JSON object per line of metrics.jsonl.
using MetricsSink = std::function<void(const Json&)>;

/// Seconds of each phase; none for a phase that the step did not have.
Phases phases_of(const StepTime&);

/// The steps, validations and saved states of a run so far. Each is passed to the sink when it is added. The
/// record is stored with every saved state, and a continued run takes it over.
class RunRecord {
 public:
  explicit RunRecord(const MetricsSink& sink) : sink_(sink) {}

  /// `executed`: FLOPs that this rank executed in the step.
  void add_step(StepResult step, double executed);
  void add_validation(ValidationPoint point);
  void add_saved(SavedPoint saved);
  /// The number of steps of the whole run, if its epochs end it.
  void report_length(int64_t steps) const { sink_({{"event", "length"}, {"steps", steps}}); }
  /// Takes over the record that to_json() wrote.
  void resume(const Json& before);

  const std::vector<StepResult>& steps() const { return steps_; }
  const std::vector<ValidationPoint>& validations() const { return validations_; }
  /// The record, with `saved` as an additional saved state.
  Json to_json(const SavedPoint& saved) const;
  /// Sets steps, speeds, validations and saved states.
  void add_to(RunResult& result) const;
  /// Notes the skipped updates, and warns if they used up the rise of the learning rate.
  void note_skipped_updates(const TrainSpec&, RunLog&) const;
  /// Sets the FLOPs per token, of the timed steps. `hfu` uses the FLOPs that this rank executed.
  void add_flops(const ModelFlops&, RunResult& result) const;

 private:
  bool all_alike() const;
  template <class T>
  void emit(const std::string& event, const T& what) const;

  const MetricsSink& sink_;
  std::vector<StepResult> steps_;
  std::vector<ValidationPoint> validations_;
  std::vector<SavedPoint> saved_;
  std::vector<double> executed_;  ///< FLOPs by step
  bool resuming_ = false;         ///< true while records of an earlier process are added
};
}  // namespace optrush
