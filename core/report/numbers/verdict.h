#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "report/numbers/statistics.h"

namespace optrush {
enum class Outcome : uint8_t {
  faster,
  slower,
  alike,      ///< any difference is small: the interval of two one-sided tests lies within ±bound
  undecided,  ///< there may be a difference, and there may be none
  too_few,    ///< fewer than kMinRounds
  same_run,   ///< both sides are one run
};
/// "faster", "slower", "no difference", "undecided", "too few rounds", "the same run"
std::string_view to_string(Outcome);

/// What the rounds say of a ratio of speeds.
struct Verdict {
  Outcome outcome = Outcome::too_few;
  double bound = 0;                 ///< of `alike`: the largest difference that is plausible, 0.03 is 3 %
  std::optional<size_t> more = {};  ///< of `undecided` and `too_few`: how many more rounds would decide, if
                                    ///< they scatter as those so far; none: more than anyone would run
};

/// The interval without 1.00 is a difference. Else two one-sided tests, each at `error`, ask whether all
/// differences above `standard.alike` are ruled out.
Verdict verdict_of(const Ratio&);

/// "about 12 more rounds would decide it", "a claim needs 2 more rounds"; "" where nothing is missing.
std::string what_would_tell(const Verdict&);
/// "faster", "no difference above 2.5 %", "undecided; about 12 more rounds would decide it".
std::string describe(const Verdict&);
}  // namespace optrush
