#pragma once
#include <optional>
#include <span>

#include "results/run_result.h"

namespace optrush {
/// What a run's losses were, of the batches that it trained on and of data that it never read.
struct Losses {
  std::span<const StepResult> steps;
  std::span<const ValidationPoint> validation;
};

/// Mean losses over the last third of the tokens that both trained on.
struct Worse {
  double loss = 0, other = 0;
  bool validated = false;  ///< validation losses; else training losses
};

/// Whether a run's loss is clearly above another's after equally many tokens, by more than 1 %: the
/// validation loss, where both have one in that third or a line between two; else, but where one of
/// two is validated later only, the training loss, which has to be above by more than four standard errors of
/// the difference as well. None: it is not, or there are
/// too few steps to say so.
std::optional<Worse> trains_worse(const Losses& subject, const Losses& reference);
}  // namespace optrush
