#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/descriptor.h"
#include "optrush/json.h"
#include "optrush/spec.h"

namespace optrush {
/// The progress of a run, from its metrics.jsonl.
struct RunState {
  std::string phase;         ///< loading, building, compiling, warmup, measuring; "": not known yet
  int64_t steps = 0;         ///< finished steps, warm-up included
  int64_t steps_before = 0;  ///< the part of them that was made before an interruption
  int64_t length = 0;  ///< steps of the whole run, if its epochs are fewer than the spec's; 0: the spec's
  std::optional<double> loss;
  double timed_tokens = 0;
  double timed_seconds = 0;
  double seconds = 0;                       ///< of all steps
  std::vector<double> losses;               ///< of the last kSmoothedSteps steps
  std::optional<double> lowest_mean;        ///< the lowest mean of as many losses
  std::optional<double> lowest_validation;  ///< the lowest validation loss
  Json reported = Json::array();  ///< steps of another program, as in its result; empty for a worker
  std::string problem;  ///< what is wrong with the first invalid line of another program; "": nothing

  std::optional<double> tokens_per_second() const;
  /// Number of steps of the whole run, warm-up included.
  int64_t length_by(const TrainSpec& train) const { return length > 0 ? length : train.warmup + train.steps; }
};

/// Follows a file to which a run appends, or that it replaces by one that starts with the progress so far.
class MetricsTail {
 public:
  /// `external`: another program writes the file, so each line is checked.
  explicit MetricsTail(std::filesystem::path file, bool external = false)
      : file_(std::move(file)), external_(external) {}
  /// Reads new lines. An incomplete line waits for its end, unless the writer has `ended`; an invalid one is
  /// ignored.
  const RunState& update(bool ended = false);

 private:
  void read_line(const std::string& line);
  void add_loss();

  std::filesystem::path file_;
  bool external_;
  Descriptor opened_;
  uint64_t inode_ = 0;
  int64_t offset_ = 0;
  std::string partial_;
  RunState state_;
};
}  // namespace optrush
