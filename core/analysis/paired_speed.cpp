#include <algorithm>
#include <cmath>
#include <vector>

#include "analysis/analysis.h"

namespace optrush {
namespace {
/// None if the two have no timed step in common.
std::optional<double> interleaved_ratio(const InterleavedSamples& subject,
                                        const InterleavedSamples& reference) {
  if (subject.group.empty() || subject.group != reference.group) return std::nullopt;
  std::vector<double> logs;
  auto other = reference.speed.begin();
  for (const auto& [step, speed] : subject.speed) {
    while (other != reference.speed.end() && other->first < step) ++other;
    if (other != reference.speed.end() && other->first == step)
      logs.push_back(std::log(speed) - std::log(other->second));
  }
  const auto middle = median(std::move(logs));
  return middle ? std::optional(std::exp(*middle)) : std::nullopt;
}
}  // namespace

InterleavedSamples interleaved(const RunResult& result) {
  InterleavedSamples round{result.turns, {}};
  if (result.turns.empty()) return round;
  // The documents in a step are random and differ between rungs, so the mean over all steps counts.
  double tokens = 0, steps = 0;
  const auto usable = [](const auto& step) { return step.timed && step.tokens > 0 && step.seconds > 0; };
  for (const auto& step : result.steps) {
    if (!usable(step)) continue;
    tokens += static_cast<double>(step.tokens);
    ++steps;
  }
  for (const auto& step : result.steps)
    if (usable(step)) round.speed.emplace_back(step.step, tokens / steps / step.seconds);
  std::ranges::sort(round.speed);
  return round;
}

std::optional<Ratio> paired_speed(const Row& subject, const Row& reference, const Standard& standard) {
  std::vector<double> mine, others, interleaved;
  for (size_t i = 0; i < subject.rounds.size(); ++i) {
    const auto it = std::ranges::find(reference.rounds, subject.rounds[i]);
    if (it == reference.rounds.end()) continue;
    const auto j = static_cast<size_t>(it - reference.rounds.begin());
    // Rows in tests may have only samples.
    const bool steps = i < subject.turns.size() && j < reference.turns.size();
    const auto ratio = steps ? interleaved_ratio(subject.turns[i], reference.turns[j]) : std::nullopt;
    if (ratio) interleaved.push_back(*ratio);
    mine.push_back(ratio ? *ratio : subject.samples[i]);
    others.push_back(ratio ? 1 : reference.samples[j]);
  }
  if (mine.empty()) return std::nullopt;
  // With enough interleaved rounds, the other rounds would only add noise.
  if (interleaved.size() >= kMinRounds)
    return paired_ratio(interleaved, std::vector<double>(interleaved.size(), 1), standard);
  return paired_ratio(mine, others, standard);
}
}  // namespace optrush
