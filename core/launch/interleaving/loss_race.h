#pragma once
#include <cmath>
#include <filesystem>
#include <map>
#include <string>

#include "launch/run/metrics_tail.h"
#include "launch/schedule/schedule.h"
#include "results/run_result.h"

namespace optrush {
/// Decides which runs of a round end before their last step (Experiment::stop_behind): a run that has reached
/// the target loss, and a run that is too far behind the first one that did.
class LossRace {
 public:
  explicit LossRace(const Experiment& experiment)
      : target_(experiment.target_loss), behind_(experiment.stop_behind) {}

  bool on() const { return behind_ > 0; }
  void begin_round();
  /// A run of the round has ended, now or in an earlier start.
  void ended(const Job&, const RunResult&);
  /// Whether a run between two steps ends. `metrics`: the file of its progress.
  bool is_over(const Job&, const std::filesystem::path& metrics);

 private:
  double target_, behind_;
  double first_s_ = HUGE_VAL;                ///< training time of the first run at the target
  std::map<std::string, MetricsTail> runs_;  ///< by id
};
}  // namespace optrush
