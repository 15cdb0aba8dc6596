#pragma once
#include <optional>
#include <string>
#include <vector>

#include "optrush/json.h"

namespace optrush {
struct Analysis;
struct Section;

/// What the probe between two rounds found (noise.jsonl): identical pieces of work, and the machine's
/// counters.
struct NoiseLine {
  int64_t round = 0;                     ///< rounds before it
  double low = 0, median = 0, high = 0;  ///< nanoseconds of a unit of work: the tenth, half and nine tenths
  Json before = Json::object(), after = Json::object();  ///< counters (launch/machine_counters.h)

  double spread() const { return (high - low) / median; }
};

/// From the nanoseconds of all pieces.
NoiseLine noise_line(int64_t round, std::vector<double> pieces, Json before, Json after);
Json to_json(const NoiseLine&);
NoiseLine noise_line_from_json(const Json&, const std::string& where);

/// How steady the machine was over an experiment.
struct Noise {
  size_t probes = 0;
  double spread = 0;                      ///< the median of the probes' spreads
  double drift = 0;                       ///< the slowest probe's median over the fastest's, less 1
  std::optional<double> stolen, waiting;  ///< shares of the time: of all CPUs by a hypervisor; some task for
                                          ///< a CPU while the probe alone should have run
  std::optional<double> running;          ///< most tasks beside this program, before a probe
  std::optional<int64_t> throttled, quota_throttled_us;  ///< over the whole experiment
  Json settings = Json::object();  ///< of the last probe: quota, governor, huge pages, MHz
};
/// None without a probe.
std::optional<Noise> noise_of(const std::vector<NoiseLine>&);

/// What makes the measurements doubtful, and what would help; "" on a quiet machine.
std::string noise_warning(const Noise&);
/// The figures behind it.
Section noise_section(const Analysis&);
}  // namespace optrush
