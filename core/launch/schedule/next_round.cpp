#include "launch/schedule/next_round.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

namespace optrush {
namespace {
bool narrow(const Pair& pair, const Until& until) {
  if (pair.settled && pair.rounds >= kLeastRoundsOfARace) return true;
  return pair.rounds >= kLeastRounds && pair.half_width && *pair.half_width <= until.within;
}

double width_of(const Pair& pair) {
  return pair.half_width.value_or(std::numeric_limits<double>::infinity());
}

Pair pair_of(const Analysis& a, const Row& row, const Comparison& comparison) {
  const Row& reference = *a.row(comparison.variant);
  Pair pair{row.runs_of(), reference.runs_of(), comparison.speed->rounds, std::nullopt};
  if (const auto& interval = comparison.speed->interval) {
    pair.half_width = std::log(interval->high / interval->low) / 2;
    const auto& until = a.experiment.until;
    pair.settled = until && until->race && (interval->low > 1 || std::log(interval->high) < until->within);
  }
  return pair;
}
}  // namespace

std::vector<int64_t> next_round(const RoundState& state) {
  if (state.rounds >= kMostRounds) return {};
  std::vector<Pair> wide = state.pairs;
  std::erase_if(wide, [&](const Pair& pair) {
    return narrow(pair, state.until) || !state.seconds.contains(pair.subject) ||
           !state.seconds.contains(pair.reference);
  });
  std::ranges::stable_sort(wide, std::greater{}, width_of);
  std::set<int64_t> chosen;
  double left = state.seconds_left;
  for (const Pair& pair : wide) {
    double needed = 0;
    for (const int64_t variant : {pair.subject, pair.reference})
      if (!chosen.contains(variant)) needed += state.seconds.at(variant);
    if (needed > left) continue;
    left -= needed;
    chosen.insert({pair.subject, pair.reference});
  }
  return {chosen.begin(), chosen.end()};
}

std::vector<Pair> pairs_of(const Analysis& a) {
  std::vector<Pair> pairs;
  for (const Row& row : a.rows) {
    if (!row.ok()) continue;
    const auto compares = [](const Comparison& c) { return c.speed && !c.speed->same_run; };
    if (compares(row.previous)) pairs.push_back(pair_of(a, row, row.previous));
    if (compares(row.base) && row.base.variant != row.previous.variant)
      pairs.push_back(pair_of(a, row, row.base));
  }
  return pairs;
}
}  // namespace optrush
