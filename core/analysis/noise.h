#pragma once
#include <optional>
#include <string>
#include <vector>

#include "results/stored.h"

namespace optrush {
struct Row;

/// How steady the machine was during an experiment.
struct Noise {
  size_t probes = 0;
  double spread = 0;   ///< median of the probes' spreads
  double drift = 0;    ///< 90th / 10th percentile of the probes' medians - 1
  size_t slow = 0;     ///< number of probes with a median of more than 1 + kQuietDrift times the usual one
  double slowest = 1;  ///< median of the slowest probe / the usual one
  /// stolen: share of CPU time taken by a hypervisor. waiting: share of time in which a task waited for a CPU
  /// while only the probe should run.
  std::optional<double> stolen, waiting;
  std::optional<double> running;  ///< median number of running tasks besides this program, before a probe
  std::optional<int64_t> throttled, quota_throttled_us;  ///< sums over the experiment
  Json settings = Json::object();  ///< settings at the last probe: quota, governor, huge pages, MHz
};
/// None without a probe.
std::optional<Noise> noise_of(const std::vector<NoiseLine>&);

/// "3 of 14 probes were slow, the slowest took 2.1 times the usual time"; "" if none was.
std::string slow_probes(const Noise&);

// Limits for a quiet machine. Above them, a report starts with a warning.
inline constexpr double kQuietSpread = 0.1, kQuietDrift = 0.1, kQuietStolen = 0.01, kQuietWaiting = 0.1;

/// A warning with remedies; "" for a quiet machine.
std::string noise_warning(const Noise&);

/// How steady the GPUs were, measured by the steps of the runs.
struct GpuSteps {
  size_t runs = 0;  ///< number of runs whose timed steps do equal work
  /// Median over those runs of (90th - 10th percentile) / median of step times; none without such a run.
  std::optional<double> spread;
  /// Of the measured runs, the one with the shortest time of all timed steps together.
  double shortest_seconds = 0, its_step_seconds = 0;
  size_t short_runs = 0;  ///< runs below kLeastTimedSeconds
};
/// In a shorter time, the clock and the power of a GPU do not settle.
inline constexpr double kLeastTimedSeconds = 3;
/// None if a run was on a CPU or no run names its device. Runs on a CPU have noise probes instead.
std::optional<GpuSteps> gpu_steps_of(const std::vector<StoredRun>&);

/// A warning with a remedy; "" if the steps took equal times.
std::string gpu_warning(const GpuSteps&);
/// A warning with a remedy; "" if the timed steps of each run took kLeastTimedSeconds.
std::string short_steps_warning(const GpuSteps&);

/// A round of a row with less than half or more than twice the expected speed, which follows from its other
/// rounds and the other rows of the round. A slowdown of all rows in a round cancels in their ratios and does
/// not count.
struct DisturbedRound {
  std::string row;
  int64_t round = 0;
  double speed = 1;  ///< speed relative to the expected speed
};
/// The disturbed rounds of rows with at least kMinRounds rounds, in order of the rows.
std::vector<DisturbedRound> disturbed_rounds(const std::vector<Row>&);
/// A warning that names them; "" if there are none. A search does not take `more_rounds`.
std::string disturbed_warning(const std::vector<DisturbedRound>&, bool more_rounds = true);
}  // namespace optrush
