#include "analysis/numbers/verdict.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "analysis/numbers/format.h"
#include "base/text.h"

namespace optrush {
namespace {
constexpr size_t kMostUsefulRounds = 1000;  ///< more rounds are not practical

/// The largest difference, as a logarithm, that two one-sided tests do not exclude.
double farthest(double mean, double standard_error, double degrees, const Standard& standard) {
  return std::abs(mean) + t_quantile(degrees, 2 * standard.error_of_one()) * standard_error;
}

/// Additional rounds after which the same mean and spread would decide.
std::optional<size_t> more_rounds(const Ratio& ratio) {
  const double mean = std::log(ratio.value);
  const double spread = ratio.standard_error() * std::sqrt(static_cast<double>(ratio.rounds));
  const auto decides = [&](size_t rounds) {
    const auto n = static_cast<double>(rounds);
    const double error = spread / std::sqrt(n);
    const double degrees = ratio.degrees_of_freedom() + n - static_cast<double>(ratio.rounds);
    return t_quantile(degrees, ratio.standard.error_of_one()) * error < std::abs(mean) ||
           farthest(mean, error, degrees, ratio.standard) <= std::log1p(ratio.standard.alike);
  };
  size_t low = ratio.rounds, high = kMostUsefulRounds;
  if (low >= high || !decides(high)) return std::nullopt;
  while (high - low > 1) (decides((low + high) / 2) ? high : low) = (low + high) / 2;
  return high - ratio.rounds;
}
}  // namespace

std::string_view to_string(Outcome outcome) {
  static constexpr std::array<std::string_view, 6> kNames = {"faster",    "slower",         "no difference",
                                                             "undecided", "too few rounds", "the same run"};
  return kNames.at(static_cast<size_t>(outcome));
}

Verdict verdict_of(const Ratio& ratio) {
  if (ratio.same_run) return {Outcome::same_run};
  if (!ratio.interval) return {Outcome::too_few, 0, kMinRounds - std::min(kMinRounds, ratio.rounds)};
  if (ratio.claim()) return {ratio.value > 1 ? Outcome::faster : Outcome::slower};
  const double bound =
      farthest(std::log(ratio.value), ratio.standard_error(), ratio.degrees_of_freedom(), ratio.standard);
  if (bound <= std::log1p(ratio.standard.alike)) return {Outcome::alike, std::expm1(bound)};
  return {Outcome::undecided, 0, more_rounds(ratio)};
}

std::string what_would_tell(const Verdict& verdict) {
  if (verdict.outcome == Outcome::too_few)
    return "a claim needs " + counted(verdict.more.value_or(0), "more round");
  if (verdict.outcome != Outcome::undecided) return "";
  if (!verdict.more) return grouped(kMostUsefulRounds) + " rounds would not decide it";
  return "about " + counted(*verdict.more, "more round") + " would decide it";
}

std::string describe(const Verdict& verdict) {
  const std::string text(to_string(verdict.outcome)), missing = what_would_tell(verdict);
  if (verdict.outcome == Outcome::alike)  // rounded up, so that the stated bound holds
    return text + " above " + fixed(std::max(1.0, std::ceil(verdict.bound * 1000 - 1e-9)) / 10, 1) + " %";
  return missing.empty() ? text : text + "; " + missing;
}
}  // namespace optrush
