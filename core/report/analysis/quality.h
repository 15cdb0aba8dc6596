#pragma once
#include <optional>
#include <span>

#include "results/run_result.h"

namespace optrush {
/// The training and validation losses of a run.
struct Losses {
  std::span<const StepResult> steps;
  std::span<const ValidationPoint> validation;
};

/// Mean losses over the last third of the tokens that both runs have trained on.
struct Worse {
  double loss = 0, other = 0;
  bool validated = false;  ///< whether these are validation losses; otherwise training losses
};

/// Whether a run's loss is clearly higher than another's after the same number of tokens: by more than 1 %.
/// It compares validation losses if both have one in that third (or one on each side of it). Otherwise,
/// unless one of them is validated only later, it compares training losses, whose difference must also exceed
/// four standard errors. None: the loss is not clearly higher, or there are too few steps.
std::optional<Worse> trains_worse(const Losses& subject, const Losses& reference);
}  // namespace optrush
