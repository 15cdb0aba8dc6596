#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "analysis/numbers/statistics.h"
#include "results/stored.h"

namespace optrush {
struct Row;

/// Without validations, the loss is the mean training loss of this number of steps.
inline constexpr int64_t kSmoothedSteps = 10;

/// The loss of a run after a number of steps, warm-up included.
struct TimedLoss {
  int64_t steps = 0;
  double seconds = 0;  ///< seconds of those steps, without validation and saving
  double loss = 0;
};
/// The validation losses; without any, the mean training loss of the last kSmoothedSteps steps, from that
/// step on.
std::vector<TimedLoss> losses_by_time(std::span<const StepResult>, std::span<const ValidationPoint>);

/// The time until the loss of a rung's runs is at or below a target.
struct TimeToLoss {
  /// Seconds of the steps up to the target, warm-up included, validation excluded; none: not reached in every
  /// round.
  std::optional<double> seconds;
  std::optional<int64_t> steps;  ///< number of these steps in the round with the most
  bool in_some_rounds = false;   ///< reached in some rounds, but not in all
  bool enough_steps = true;      ///< false: there are fewer steps than kSmoothedSteps
  bool validated = false;        ///< by the validation loss; otherwise by the smoothed training loss
  double last = 0;               ///< the final loss of that kind
};

/// For one run; none if it has no losses.
std::optional<TimeToLoss> time_to_loss(const RunResult&, double target);
/// "12.0 s, 80 steps", "not reached", "—".
std::string text_of(const std::optional<TimeToLoss>&);
/// The form in results.json; null if there is none.
Json json_of(const std::optional<TimeToLoss>&);

/// How the training of a round ended.
struct RoundEnd {
  int64_t round = 0;
  uint64_t seed = 0;
  int64_t steps = 0;       ///< warm-up included
  double seconds = 0;      ///< of these steps
  int64_t trained = 0;     ///< tokens with a loss
  double last = 0;         ///< last validation loss; without any, the mean of the last kSmoothedSteps losses
  bool validated = false;  ///< `last` is a validation loss
  std::optional<TimeToLoss> time;  ///< none: there is no target, or the run has no losses
};
RoundEnd end_of(const StoredRun&, double target_loss);
/// For all rounds: the median of the seconds, if all rounds reach the target.
std::optional<TimeToLoss> time_to_loss(const std::vector<RoundEnd>&);

/// The ratio of the reference's time to the target loss to the subject's, paired by round: 1.05 is 5 %
/// sooner. None if any round that both have has not reached the loss in both.
std::optional<Ratio> paired_time_to_loss(const Row& subject, const Row& reference, const Standard& = {});

/// The ratio of perplexities, exp(last loss), after equally many tokens, paired by round. Its logarithm is
/// the difference of the losses. None if the rounds have one seed, different losses or different tokens.
std::optional<Ratio> paired_perplexity(const Row& subject, const Row& reference, const Standard& = {});
}  // namespace optrush
