#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "base/descriptor.h"

namespace optrush {
/// How far a run is, as its metrics.jsonl tells.
struct RunState {
  std::string phase;         ///< loading, building, compiling, warmup, measuring; "": not yet known
  int64_t steps = 0;         ///< done, warm-up included
  int64_t steps_before = 0;  ///< of them, those that were made before the run was interrupted
  std::optional<double> loss;
  double timed_tokens = 0;
  double timed_seconds = 0;

  std::optional<double> tokens_per_second() const;
};

/// Follows a file that another process appends to, or replaces by one that begins with how far it was.
class MetricsTail {
 public:
  explicit MetricsTail(std::filesystem::path file) : file_(std::move(file)) {}
  /// Reads what was added; a line that is not yet whole waits for its end, one that is not understood is
  /// passed over.
  const RunState& update();

 private:
  void take(const std::string& line);

  std::filesystem::path file_;
  Descriptor opened_;
  uint64_t inode_ = 0;
  int64_t offset_ = 0;
  std::string partial_;
  RunState state_;
};
}  // namespace optrush
