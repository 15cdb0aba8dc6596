#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "analysis/numbers/statistics.h"

namespace optrush {
enum class Outcome : uint8_t {
  faster,
  slower,
  alike,      ///< any difference is small: the interval of two one-sided tests is within ±bound
  undecided,  ///< there may or may not be a difference
  too_few,    ///< fewer than kMinRounds rounds
  same_run,   ///< both sides are the same run
};
/// "faster", "slower", "no difference", "undecided", "too few rounds", "the same run"
std::string_view to_string(Outcome);

/// The verdict on a ratio of speeds.
struct Verdict {
  Outcome outcome = Outcome::too_few;
  double bound = 0;  ///< for `alike`: the largest plausible difference; 0.03 is 3 %
  /// For `undecided` and `too_few`: additional rounds that would decide if they scatter as before; none: more
  /// than is practical.
  std::optional<size_t> more = {};
};

/// An interval without 1.00 is a difference. Otherwise two one-sided tests, each with `error`, test whether
/// all differences above `standard.alike` are excluded.
Verdict verdict_of(const Ratio&);

/// "about 12 more rounds would decide it", "a claim needs 2 more rounds"; "" if nothing is missing.
std::string what_would_tell(const Verdict&);
/// "faster", "no difference above 2.5 %", "undecided; about 12 more rounds would decide it".
std::string describe(const Verdict&);
}  // namespace optrush
