#pragma once
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <vector>

#include "data/batches.h"
#include "measure/step_clock.h"
#include "optrush/step.h"
#include "train/run_record.h"
#include "train/session.h"

namespace optrush {
/// Makes the steps of a run and records each when the device has finished it.
class StepMaker {
 public:
  StepMaker(Session& session, RunRecord& record);

  /// The micro-batches of a step from the slot `data`; while `evaluating()`, those of the validation data.
  std::vector<Batch> data(int64_t step) const { return data_(step); }
  Batches& batches() { return batches_; }

  /// Makes a step. `timed`: the step counts for the measurements.
  void make(int64_t step, bool timed) { make(step, timed, *clock_); }
  /// The same, and counts the bytes kept for the backward and the costs of operators: activations(), costs().
  /// Costs depend only on shapes, except those of attention within documents, which depend on their lengths.
  void account(int64_t step, bool timed);
  /// Makes a step that is not recorded and writes its trace to a file.
  void trace(int64_t step, const std::filesystem::path& file);
  /// Records the finished steps. `wait`: waits for all steps made so far.
  void collect(bool wait);

  int64_t activations() const { return activations_; }
  /// Bytes in timed steps that the device's allocator does not count.
  int64_t uncounted_memory() const { return uncounted_memory_; }
  const Json& costs() const { return costs_; }

 private:
  /// A step that the device may not have finished.
  struct MadeStep {
    int64_t step;
    bool timed;
    Tensor loss, gradient_norm, skipped;
    double learning_rate;
    int64_t trained;
    StepContent content;
    double computed_pairs;
  };
  void make(int64_t step, bool timed, StepClock& clock);
  void check(const StepResult&, bool has_loss, bool has_norm) const;
  std::string cure_of_not_finite(const std::string& pass) const;
  void record(const MadeStep&, const StepTime&);

  Session& session_;
  RunRecord& record_;
  Batches batches_;
  std::unique_ptr<StepClock> clock_;
  std::function<std::vector<Batch>(int64_t)> data_;
  std::function<void(Step&)> schedule_;
  std::deque<MadeStep> pending_;
  int64_t activations_ = 0, uncounted_memory_ = 0;
  double other_flops_ = 0, flops_of_a_pair_ = 0;  ///< executed by this rank in the accounted step
  double accounted_positions_ = 0;                ///< of that step; the other FLOPs grow with them
  Json costs_;
};
}  // namespace optrush
