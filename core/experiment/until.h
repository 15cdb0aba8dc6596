#pragma once
#include <string>

#include "optrush/json.h"

namespace optrush {
/// When an experiment has run enough rounds, where their number is left open.
struct Until {
  double within = 0.03;  ///< half the width of an interval in logarithms: 0.03 is ±3 %
  double at_most_s = 0;  ///< seconds of measuring after which no round begins
  /// Seconds after which no round begins where every pair has enough for a claim; 0: at_most_s.
  double enough_s = 0;
  /// Only rungs that may still turn out faster than their base continue to run: a decided rung stops, and so
  /// does what is surely not faster by more than `within`.
  bool race = false;
  bool operator==(const Until&) const = default;
};

/// Of every rung, whatever its intervals are.
inline constexpr int64_t kMostRounds = 200;

/// Seconds: 90, "90s", "5m", "1.5h". An Error lists the forms.
double seconds_from(const Json&, const std::string& where);

Json to_json(const Until&);
Until until_from_json(const Json&, const std::string& where);
}  // namespace optrush
