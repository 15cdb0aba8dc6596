#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "results/run_result.h"

namespace optrush {
/// Where no validation tells the loss, it is the mean of the training losses of so many steps.
inline constexpr int64_t kSmoothedSteps = 10;

/// A loss that a run had come to after some of its steps, warm-up included.
struct TimedLoss {
  int64_t steps = 0;
  double seconds = 0;  ///< of those steps; validation and saving not
  double loss = 0;
};
/// The validation losses; without any, the mean training loss of the last kSmoothedSteps steps, once there
/// are so many.
std::vector<TimedLoss> losses_by_time(std::span<const StepResult>, std::span<const ValidationPoint>);

/// After so many seconds, along the line between two of them; none before the first and after the last.
std::optional<double> loss_at(const std::vector<TimedLoss>&, double seconds);

/// How long runs of one rung train until their loss is at or below a target.
struct TimeToLoss {
  /// Of the steps up to there, warm-up included and validation not; none: not reached in every round.
  std::optional<double> seconds;
  std::optional<int64_t> steps;  ///< their number: in the round that took most
  bool in_some_rounds = false;   ///< reached, but not in every one
  bool told = true;              ///< false: fewer steps than the mean of losses takes
  bool validated = false;        ///< by the validation loss; else by the smoothed training loss
  double last = 0;               ///< the loss, of that kind, that training ends at
  double since_before = 0;       ///< seconds from the last loss above the target, or the start, to there
};

/// Of one run; none where it has neither losses of a validation nor of a step.
std::optional<TimeToLoss> time_to_loss(const RunResult&, double target);
/// Of all rounds: their median of the seconds, where all of them reach it.
std::optional<TimeToLoss> time_to_loss(const std::vector<const RunResult*>& rounds, double target);
/// "12.0 s, 80 steps", "not reached", "—".
std::string text_of(const std::optional<TimeToLoss>&);
/// As results.json has it; null where there is none.
Json json_of(const std::optional<TimeToLoss>&);
}  // namespace optrush
