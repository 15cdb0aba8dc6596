#pragma once
#include <filesystem>
#include <string>

#include "process/process.h"

namespace optrush {
/// Shows the steps of a report's runs in TensorBoard or Weights & Biases while they are made: a process that
/// follows their metrics.jsonl, and writes into live/TRACKER of the report's folder by the tracker's own
/// Python package.
class LiveTracker {
 public:
  /// `tracker`: tensorboard or wandb, which check() has accepted.
  LiveTracker(const std::string& tracker, const std::filesystem::path& report, const std::string& experiment,
              Interrupts&);
  /// Waits for what is not yet written, for 30 s at most.
  ~LiveTracker();
  LiveTracker(const LiveTracker&) = delete;
  LiveTracker& operator=(const LiveTracker&) = delete;

  /// A UsageError where the tracker's package is missing, which says how to install it.
  static void check(const std::string& tracker, Interrupts&);
  /// Why it has ended before its time; "": it has not.
  std::string problem();

 private:
  std::filesystem::path folder_;
  Interrupts& interrupts_;
  Process process_;
  std::string problem_;
};
}  // namespace optrush
