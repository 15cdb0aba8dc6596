#pragma once
#include <optional>
#include <string>
#include <vector>

#include "results/noise_line.h"

namespace optrush {
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

// Above these a machine is not quiet, and a report opens with that.
inline constexpr double kQuietSpread = 0.1, kQuietDrift = 0.1, kQuietStolen = 0.01, kQuietWaiting = 0.1;

/// What makes the measurements doubtful, and what would help; "" on a quiet machine.
std::string noise_warning(const Noise&);
}  // namespace optrush
