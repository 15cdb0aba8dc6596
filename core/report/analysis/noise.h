#pragma once
#include <optional>
#include <string>
#include <vector>

#include "results/noise_line.h"

namespace optrush {
/// How steady the machine was during an experiment.
struct Noise {
  size_t probes = 0;
  double spread = 0;  ///< median of the probes' spreads
  double drift = 0;   ///< median of the slowest probe / median of the fastest - 1
  /// stolen: share of CPU time taken by a hypervisor. waiting: share of time in which a task waited for a CPU
  /// while only the probe should run.
  std::optional<double> stolen, waiting;
  std::optional<double> running;  ///< largest number of running tasks besides this program, before a probe
  std::optional<int64_t> throttled, quota_throttled_us;  ///< sums over the experiment
  Json settings = Json::object();  ///< settings at the last probe: quota, governor, huge pages, MHz
};
/// None without a probe.
std::optional<Noise> noise_of(const std::vector<NoiseLine>&);

// Limits for a quiet machine. Above them, a report starts with a warning.
inline constexpr double kQuietSpread = 0.1, kQuietDrift = 0.1, kQuietStolen = 0.01, kQuietWaiting = 0.1;

/// A warning with remedies; "" for a quiet machine.
std::string noise_warning(const Noise&);
}  // namespace optrush
