#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "optrush/spec.h"
#include "results/run_result.h"

namespace optrush {
/// When a run ends before it has made its steps: its epochs are over, or its validation loss falls no more.
/// Both follow from the spec and from what the run has recorded, so a run that goes on from a saved state
/// ends where it would have.
class RunEnd {
 public:
  /// `sequences`: of an epoch; 0 where there is no end of new ones. An Error where epochs are over before a
  /// step is timed.
  RunEnd(const RunSpec& spec, int64_t sequences, int64_t global_batch);

  /// Of the whole run, warm-up included, where no validation ends it.
  int64_t steps() const { return steps_; }
  /// Why the run has fewer steps than asked for; empty: it has not.
  std::string why_shorter() const;
  /// The lowest of validations in order, the first of equal ones; none: there is none.
  static std::optional<size_t> best(const std::vector<ValidationPoint>& validations);
  /// The last validation is the best so far.
  static bool improved(const std::vector<ValidationPoint>& validations);
  /// As many validations as the spec has patience for came after the best one.
  bool is_over(const std::vector<ValidationPoint>& validations) const;
  /// A remark for the report of a run that is over after `done` steps.
  std::string why_over(const std::vector<ValidationPoint>& validations, int64_t done) const;

 private:
  int64_t epochs_, patience_, asked_, steps_;
};
}  // namespace optrush
