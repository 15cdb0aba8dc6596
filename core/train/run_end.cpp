#include "train/run_end.h"

#include <algorithm>

#include "base/number_text.h"
#include "base/text.h"
#include "optrush/error.h"

namespace optrush {
RunEnd::RunEnd(const RunSpec& spec, int64_t sequences, int64_t global_batch)
    : epochs_(spec.train.epochs),
      patience_(spec.validate.every > 0 ? spec.validate.patience : 0),
      asked_(spec.train.warmup + spec.train.steps),
      steps_(asked_) {
  if (epochs_ == 0 || sequences == 0) return;
  // Rounded up, so every sequence of the epoch is read; the last step may read some of the next epoch.
  const int64_t in_epochs = (epochs_ * sequences + global_batch - 1) / global_batch;
  if (in_epochs <= spec.train.warmup)
    throw Error(ErrorCode::invalid_value,
                counted(epochs_, "epoch") + " of " + std::to_string(sequences) + " sequences gives " +
                    std::to_string(in_epochs) + " steps of " + std::to_string(global_batch) + ", but " +
                    std::to_string(spec.train.warmup) + " are warm-up, so no step is timed",
                "lower train.warmup or the batch, or train more epochs");
  steps_ = std::min(asked_, in_epochs);
}

std::string RunEnd::why_shorter(int64_t made) const {
  if (steps_ == asked_ || made < steps_) return {};
  return counted(epochs_, "epoch") + (epochs_ == 1 ? " was" : " were") + " complete after " +
         std::to_string(steps_) + " steps";
}

std::optional<size_t> RunEnd::best(const std::vector<ValidationPoint>& validations) {
  std::optional<size_t> best;
  for (size_t i = 0; i < validations.size(); ++i)
    if (!best || validations[i].loss < validations[*best].loss) best = i;
  return best;
}

bool RunEnd::improved(const std::vector<ValidationPoint>& validations) {
  const auto found = best(validations);
  return found && *found + 1 == validations.size();
}

bool RunEnd::is_over(const std::vector<ValidationPoint>& validations) const {
  const auto found = best(validations);
  return patience_ > 0 && found && static_cast<int64_t>(validations.size() - 1 - *found) >= patience_;
}

std::string RunEnd::why_over(const std::vector<ValidationPoint>& validations, int64_t done) const {
  const ValidationPoint& best = validations.at(*RunEnd::best(validations));
  return "early stopping after " + std::to_string(done) + " of " + std::to_string(steps_) +
         " steps: no validation loss was below that of step " + std::to_string(best.step) + " (" +
         fixed(best.loss, 4) + ") in " + std::to_string(patience_) + " validations";
}
}  // namespace optrush
