#include "report/quality.h"

#include <algorithm>
#include <cmath>

namespace optrush {
namespace {
constexpr size_t kFewestSteps = 3;  ///< in the window, of either run
constexpr double kClearly = 0.01;   ///< of the loss
constexpr double kInStandardErrors = 4;

int64_t tokens_of(const std::vector<StepResult>& steps) {
  int64_t tokens = 0;
  for (const auto& step : steps) tokens += step.tokens;
  return tokens;
}

/// Losses of the steps that end in the last third of the first `tokens`.
std::vector<double> last_third(const std::vector<StepResult>& steps, int64_t tokens) {
  std::vector<double> losses;
  int64_t seen = 0;
  for (const auto& step : steps) {
    seen += step.tokens;
    if (seen > tokens) break;
    if (3 * seen > 2 * tokens) losses.push_back(step.loss);
  }
  return losses;
}

struct Mean {
  double value = 0, squared_error = 0;
};

Mean mean_of(const std::vector<double>& values) {
  Mean mean;
  const auto n = static_cast<double>(values.size());
  for (const double value : values) mean.value += value / n;
  for (const double value : values)
    mean.squared_error += (value - mean.value) * (value - mean.value) / (n - 1) / n;
  return mean;
}
}  // namespace

std::optional<Worse> trains_worse(const std::vector<StepResult>& subject,
                                  const std::vector<StepResult>& reference) {
  const int64_t tokens = std::min(tokens_of(subject), tokens_of(reference));
  const auto mine = last_third(subject, tokens), others = last_third(reference, tokens);
  if (std::min(mine.size(), others.size()) < kFewestSteps) return std::nullopt;
  const Mean a = mean_of(mine), b = mean_of(others);
  double squared_error = a.squared_error + b.squared_error;
  // Step by step the two see the same tokens, so what a batch adds to the loss cancels.
  if (mine.size() == others.size()) {
    std::vector<double> differences;
    for (size_t i = 0; i < mine.size(); ++i) differences.push_back(mine[i] - others[i]);
    squared_error = std::min(squared_error, mean_of(differences).squared_error);
  }
  const double above = a.value - b.value;
  const bool clearly =
      above > kClearly * std::abs(b.value) && above > kInStandardErrors * std::sqrt(squared_error);
  return clearly ? std::optional(Worse{a.value, b.value}) : std::nullopt;
}
}  // namespace optrush
