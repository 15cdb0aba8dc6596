#pragma once
#include <utility>
#include <vector>

#include "spec/record.h"

namespace optrush {
/// Settings of the machine that a report shows, with their JSON types. They are stored with the counters.
inline constexpr std::pair<const char*, const char*> kMachineSettings[] = {
    {"quota_cpus", "number"}, {"governor", "string"}, {"huge_pages", "string"}, {"mhz", "integer"}};

/// The result of a noise probe between two rounds (noise.jsonl): times of identical pieces of work, and
/// counters of the machine.
struct NoiseLine {
  int64_t round = 0;                     ///< number of rounds before the probe
  double low = 0, median = 0, high = 0;  ///< nanoseconds of a piece of work: 10th, 50th and 90th percentile
  Json before = Json::object(), after = Json::object();  ///< counters (launch/machine/noise_log.h)

  double spread() const { return (high - low) / median; }
};

/// Computes the percentiles from the nanoseconds of all pieces.
NoiseLine noise_line(int64_t round, std::vector<double> pieces, Json before, Json after);
Record<NoiseLine> record_of(const NoiseLine*);
}  // namespace optrush
