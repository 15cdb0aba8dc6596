#pragma once
#include <string>

#include "optrush/json.h"

namespace optrush {
/// When an experiment with an open number of rounds has run enough.
struct Until {
  double within = 0.03;  ///< half width of an interval of the log ratio: 0.03 is ±3 %
  double at_most_s = 0;  ///< seconds after which no round starts
  /// Seconds after which no round starts if every pair has enough rounds for a claim; 0: at_most_s.
  double enough_s = 0;
  /// Only rungs that may still be faster than their base continue: a decided rung stops, and so does a rung
  /// that is certainly not faster by more than `within`.
  bool race = false;
  bool operator==(const Until&) const = default;
};

/// The maximum number of rounds of a rung.
inline constexpr int64_t kMostRounds = 200;

/// Parses seconds: 90, "90s", "5m", "1.5h". An Error lists the forms.
double seconds_from(const Json&, const std::string& where);

Json to_json(const Until&);
Until until_from_json(const Json&, const std::string& where);
}  // namespace optrush
