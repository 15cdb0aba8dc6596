#pragma once
#include <chrono>
#include <filesystem>

#include "launch/journal.h"
#include "optrush/json.h"
#include "optrush/spec.h"
#include "process/signals.h"

namespace optrush {
/// The matmul peaks of the machine, measured again between rounds: a machine that was busy when the
/// experiment began would have a low one for all of it. context.json holds the best of each arithmetic,
/// peaks.jsonl every measurement.
class PeakLog {
 public:
  /// `folder` of the report, whose context.json gets there before the first look.
  PeakLog(std::filesystem::path folder, std::filesystem::path worker, const RunSpec& base, Journal&,
          Interrupts&);

  /// After so many rounds, while no run is alive; only where the measurement takes a small part of the time
  /// that has passed since the last one.
  void look(int64_t rounds);

 private:
  using Clock = std::chrono::steady_clock;

  std::filesystem::path folder_, worker_;
  const RunSpec& base_;
  Journal& journal_;
  Interrupts& interrupts_;
  Clock::time_point last_ = Clock::now();
  double takes_s_;  ///< a measurement
};

/// `context` with the higher of its own and the other's measured peaks.
Json with_best_peaks(Json context, const Json& other);
}  // namespace optrush
