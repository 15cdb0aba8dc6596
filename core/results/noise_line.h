#pragma once
#include <string>
#include <utility>
#include <vector>

#include "optrush/json.h"

namespace optrush {
/// The settings of a machine among its counters that a report shows, by their types.
inline constexpr std::pair<const char*, const char*> kMachineSettings[] = {
    {"quota_cpus", "number"}, {"governor", "string"}, {"huge_pages", "string"}, {"mhz", "integer"}};

/// The result of the probe between two rounds (noise.jsonl): identical pieces of work, and the machine's
/// counters.
struct NoiseLine {
  int64_t round = 0;                     ///< rounds before it
  double low = 0, median = 0, high = 0;  ///< nanoseconds of a unit of work: the tenth, half and nine tenths
  Json before = Json::object(), after = Json::object();  ///< counters (launch/machine/machine_counters.h)

  double spread() const { return (high - low) / median; }
};

/// From the nanoseconds of all pieces.
NoiseLine noise_line(int64_t round, std::vector<double> pieces, Json before, Json after);
Json to_json(const NoiseLine&);
NoiseLine noise_line_from_json(const Json&, const std::string& where);
}  // namespace optrush
