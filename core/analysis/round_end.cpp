#include "analysis/round_end.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "analysis/analysis.h"

namespace optrush {
namespace {
/// The ends of the rounds that both rows have.
std::vector<std::pair<const RoundEnd*, const RoundEnd*>> paired(const Row& subject, const Row& reference) {
  std::vector<std::pair<const RoundEnd*, const RoundEnd*>> pairs;
  for (const RoundEnd& mine : subject.ends)
    for (const RoundEnd& other : reference.ends)
      if (mine.round == other.round && mine.seed == other.seed) pairs.emplace_back(&mine, &other);
  return pairs;
}

/// The ratio of the logarithms that `log` finds for each pair; none if it finds none for any of them.
template <class Log>
std::optional<Ratio> ratio_of_pairs(const auto& pairs, const Standard& standard, Log log) {
  std::vector<double> logs;
  for (const auto& [mine, other] : pairs) {
    const std::optional<double> found = log(*mine, *other);
    if (!found) return std::nullopt;
    logs.push_back(*found);
  }
  return logs.empty() ? std::nullopt : std::optional(ratio_of_logs(logs, standard));
}
}  // namespace

RoundEnd end_of(const StoredRun& run, double target_loss) {
  const RunResult& result = run.result;
  RoundEnd end{.round = run.spec.round, .seed = run.spec.train.seed, .steps = std::ssize(result.steps)};
  for (const StepResult& step : result.steps) {
    end.seconds += step.seconds;
    end.trained += step.trained;
  }
  const auto last = std::min<std::ptrdiff_t>(kSmoothedSteps, std::ssize(result.steps));
  for (auto step = result.steps.end() - last; step != result.steps.end(); ++step)
    end.last += step->loss / static_cast<double>(last);
  end.validated = !result.validation.empty();
  if (end.validated) end.last = result.validation.back().loss;
  if (target_loss > 0) end.time = time_to_loss(result, target_loss);
  return end;
}

std::optional<Ratio> paired_time_to_loss(const Row& subject, const Row& reference, const Standard& standard) {
  return ratio_of_pairs(paired(subject, reference), standard,
                        [](const RoundEnd& mine, const RoundEnd& other) -> std::optional<double> {
                          if (!mine.time || !other.time || mine.time->validated != other.time->validated ||
                              mine.time->seconds.value_or(0) <= 0 || other.time->seconds.value_or(0) <= 0)
                            return std::nullopt;
                          return std::log(*other.time->seconds / *mine.time->seconds);
                        });
}

std::optional<Ratio> paired_perplexity(const Row& subject, const Row& reference, const Standard& standard) {
  const auto pairs = paired(subject, reference);
  if (pairs.size() < 2 || pairs.front().first->seed == pairs.back().first->seed) return std::nullopt;
  return ratio_of_pairs(pairs, standard,
                        [](const RoundEnd& mine, const RoundEnd& other) -> std::optional<double> {
                          if (mine.validated != other.validated || mine.trained != other.trained ||
                              !std::isfinite(mine.last) || !std::isfinite(other.last))
                            return std::nullopt;
                          return mine.last - other.last;
                        });
}
}  // namespace optrush
