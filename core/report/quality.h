#pragma once
#include <optional>
#include <vector>

#include "report/run_result.h"

namespace optrush {
/// Mean losses over the last third of the tokens that both trained on.
struct Worse {
  double loss = 0, other = 0;
};

/// Whether a run's loss is clearly above another's after equally many tokens: by more than 1 %, and by more
/// than four standard errors of the difference. None: it is not, or there are too few steps to say so.
std::optional<Worse> trains_worse(const std::vector<StepResult>& subject,
                                  const std::vector<StepResult>& reference);
}  // namespace optrush
