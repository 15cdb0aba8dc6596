#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "optrush/spec.h"
#include "results/run_result.h"

namespace optrush {
/// Whether what is due every `every` steps, and after the last one, is due after `done` steps.
inline bool is_due(int64_t done, int64_t every, const TrainSpec& train) {
  return done % every == 0 || done == train.warmup + train.steps;
}

/// Decides when a run ends before its last step: its epochs are over, or its validation loss does not fall.
/// Both depend only on the spec and the recorded validations, so a continued run ends at the same step.
class RunEnd {
 public:
  /// `sequences`: number per epoch; 0 if the data never repeat. An Error if no step is timed.
  RunEnd(const RunSpec& spec, int64_t sequences, int64_t global_batch);

  /// Number of steps of the run, warm-up included, unless a validation ends it earlier.
  int64_t steps() const { return steps_; }
  /// The reason why a run that made these steps has fewer than the spec states; "" if its epochs are not it.
  std::string why_shorter(int64_t made) const;
  /// Index of the lowest validation loss, the first of equal ones; none if there is no validation.
  static std::optional<size_t> best(const std::vector<ValidationPoint>& validations);
  /// Whether the last validation is the best so far.
  static bool improved(const std::vector<ValidationPoint>& validations);
  /// Whether the number of validations since the best one has reached the spec's patience.
  bool is_over(const std::vector<ValidationPoint>& validations) const;
  /// A note for the report of a run that ended after `done` steps.
  std::string why_over(const std::vector<ValidationPoint>& validations, int64_t done) const;

 private:
  int64_t epochs_, patience_, asked_, steps_;
};
}  // namespace optrush
