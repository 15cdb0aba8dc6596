#pragma once
#include <filesystem>
#include <string>

#include "process/process.h"

namespace optrush {
/// Shows the steps of runs in TensorBoard or Weights & Biases while they are made: a process in Python
/// follows metrics.jsonl of the runs and writes to live/TRACKER in the report's folder.
class LiveTracker {
 public:
  /// `tracker`: tensorboard or wandb; check() must have accepted it.
  LiveTracker(const std::string& tracker, const std::filesystem::path& report, const std::string& experiment,
              Interrupts&);
  /// Waits up to 30 s until everything is written.
  ~LiveTracker();
  LiveTracker(const LiveTracker&) = delete;
  LiveTracker& operator=(const LiveTracker&) = delete;

  /// Throws a UsageError if the tracker's package is missing; the remedy is to install it.
  static void check(const std::string& tracker, Interrupts&);
  /// Why it ended early; "": it has not.
  std::string problem();

 private:
  std::filesystem::path folder_;
  Interrupts& interrupts_;
  Process process_;
  std::string problem_;
};
}  // namespace optrush
