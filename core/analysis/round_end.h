#pragma once
#include <cstdint>
#include <optional>

#include "analysis/numbers/statistics.h"
#include "analysis/time_to_loss.h"
#include "results/stored.h"

namespace optrush {
struct Row;

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

/// The ratio of the reference's time to the target loss to the subject's, paired by round: 1.05 is 5 %
/// sooner. None if any round that both have has not reached the loss in both.
std::optional<Ratio> paired_time_to_loss(const Row& subject, const Row& reference, const Standard& = {});

/// The ratio of perplexities, exp(last loss), after equally many tokens, paired by round. Its logarithm is
/// the difference of the losses. None if the rounds have one seed, different losses or different tokens.
std::optional<Ratio> paired_perplexity(const Row& subject, const Row& reference, const Standard& = {});
}  // namespace optrush
