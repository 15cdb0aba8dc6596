#include "report/quality.h"

#include <algorithm>
#include <cmath>

namespace optrush {
namespace {
constexpr size_t kFewestSteps = 3;  ///< in the window, of either run
constexpr double kClearly = 0.01;   ///< of the loss
constexpr double kInStandardErrors = 4;

int64_t tokens_of(std::span<const StepResult> steps) {
  int64_t tokens = 0;
  for (const auto& step : steps) tokens += step.tokens;
  return tokens;
}

/// In the last third of the first `tokens`.
struct LastThird {
  std::vector<double> steps, validations;

  LastThird(const Losses& losses, int64_t tokens) {
    int64_t seen = 0;
    for (const auto& step : losses.steps) {
      seen += step.tokens;
      if (seen > tokens) break;
      if (3 * seen <= 2 * tokens) continue;
      steps.push_back(step.loss);
      for (const auto& point : losses.validation)
        if (point.step == step.step + 1) validations.push_back(point.loss);
    }
  }
};

struct Mean {
  double value = 0, squared_error = 0;
};

Mean mean_of(const std::vector<double>& values) {
  Mean mean;
  const auto n = static_cast<double>(values.size());
  for (const double value : values) mean.value += value / n;
  for (const double value : values)
    mean.squared_error += (value - mean.value) * (value - mean.value) / (n - 1) / n;  // of one: not a number
  return mean;
}

bool is_above(const Worse& found) { return found.loss - found.other > kClearly * std::abs(found.other); }
}  // namespace

std::optional<Worse> trains_worse(const Losses& subject, const Losses& reference) {
  const int64_t tokens = std::min(tokens_of(subject.steps), tokens_of(reference.steps));
  const LastThird here(subject, tokens), there(reference, tokens);
  if (!here.validations.empty() && !there.validations.empty()) {
    const Worse found{mean_of(here.validations).value, mean_of(there.validations).value, true};
    return is_above(found) ? std::optional(found) : std::nullopt;
  }
  const auto &mine = here.steps, &others = there.steps;
  if (std::min(mine.size(), others.size()) < kFewestSteps) return std::nullopt;
  const Mean a = mean_of(mine), b = mean_of(others);
  double squared_error = a.squared_error + b.squared_error;
  // Step by step the two see the same tokens, so what a batch adds to the loss cancels.
  if (mine.size() == others.size()) {
    std::vector<double> differences;
    for (size_t i = 0; i < mine.size(); ++i) differences.push_back(mine[i] - others[i]);
    squared_error = std::min(squared_error, mean_of(differences).squared_error);
  }
  const Worse found{a.value, b.value};
  const bool clearly = found.loss - found.other > kInStandardErrors * std::sqrt(squared_error);
  return is_above(found) && clearly ? std::optional(found) : std::nullopt;
}
}  // namespace optrush
