#include "analysis/quality.h"

#include <cmath>

namespace optrush {
namespace {
constexpr size_t kFewestSteps = 3;  ///< fewest steps of each run in the window
constexpr double kClearly = 0.01;   ///< relative difference of the loss
constexpr double kInStandardErrors = 4;

int64_t tokens_of(std::span<const StepResult> steps) {
  int64_t tokens = 0;
  for (const auto& step : steps) tokens += step.trained;
  return tokens;
}

/// Losses of the steps that end in the last third of the first `tokens`.
std::vector<double> last_third(std::span<const StepResult> steps, int64_t tokens) {
  std::vector<double> losses;
  int64_t seen = 0;
  for (const auto& step : steps) {
    seen += step.trained;
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
    mean.squared_error += (value - mean.value) * (value - mean.value) / (n - 1) / n;  // NaN for one value
  return mean;
}

/// A validation loss after a number of tokens.
struct Point {
  int64_t tokens = 0;
  double loss = 0;
};

std::vector<Point> points_of(const Losses& losses) {
  std::vector<Point> points;
  int64_t seen = 0;
  auto point = losses.validation.begin();  // both are in order of the steps
  for (const auto& step : losses.steps) {
    seen += step.trained;
    while (point != losses.validation.end() && point->step < step.step + 1) ++point;
    for (; point != losses.validation.end() && point->step == step.step + 1; ++point)
      points.push_back({seen, point->loss});
  }
  return points;
}

/// Tokens before the last validation; 0: there was none.
int64_t last_validated(const Losses& losses) {
  const auto points = points_of(losses);
  return points.empty() ? 0 : points.back().tokens;
}

/// Compares validation losses in the last third of the first `tokens`. Runs with other batch sizes are
/// validated after other numbers of tokens, so losses are interpolated.
std::optional<Worse> validated(const Losses& subject, const Losses& reference, int64_t tokens) {
  const auto mine = points_of(subject), others = points_of(reference);
  std::vector<double> here, there;
  for (const auto* points : {&mine, &others})
    for (const Point& point : *points) {
      if (3 * point.tokens <= 2 * tokens || point.tokens > tokens) continue;
      const auto a = loss_between(mine, point.tokens, &Point::tokens),
                 b = loss_between(others, point.tokens, &Point::tokens);
      if (!a || !b) continue;
      here.push_back(*a);
      there.push_back(*b);
    }
  if (here.empty()) return std::nullopt;
  return Worse{mean_of(here).value, mean_of(there).value, true};
}

bool is_above(const Worse& found) { return found.loss - found.other > kClearly * std::abs(found.other); }
}  // namespace

std::optional<Worse> trains_worse(const Losses& subject, const Losses& reference) {
  const int64_t tokens = std::min(tokens_of(subject.steps), tokens_of(reference.steps));
  if (const auto found = validated(subject, reference, tokens))
    return is_above(*found) ? found : std::nullopt;
  // If one run is validated only later, its training losses may not be comparable, because its first batches
  // may be fuller.
  if (!subject.validation.empty() && !reference.validation.empty() &&
      std::max(last_validated(subject), last_validated(reference)) > tokens)
    return std::nullopt;
  const auto mine = last_third(subject.steps, tokens), others = last_third(reference.steps, tokens);
  if (std::min(mine.size(), others.size()) < kFewestSteps) return std::nullopt;
  const Mean a = mean_of(mine), b = mean_of(others);
  double squared_error = a.squared_error + b.squared_error;
  // Both have the same tokens in each step, so the variation between batches cancels.
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
