#pragma once
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "experiment/experiment.h"
#include "launch/fork_server.h"
#include "optrush/json.h"
#include "optrush/spec.h"
#include "process/signals.h"
#include "results/context.h"

namespace optrush {
// What a report knows about its machine: context.json, peaks.jsonl and noise.jsonl.

/// Describes the machine and its software (docs/internals/controller.md): the measurements of the worker's
/// doctor, and what the controller knows. `quick`: only as far as needed to recognize the machine. If the
/// doctor fails, the field "doctor" has the reason. None after a signal.
std::optional<Json> describe_machine(const Experiment&, ForkServer& workers, bool quick, Interrupts&);

/// The output of the worker's doctor for the machine of this spec.
Json ask_doctor(RunSpec, ForkServer& workers, bool quick, Interrupts&);

/// The reason why a report can't have runs of both machines: "CPU 'A' there, 'B' here"; empty if it can.
std::string difference_of_machines(const Context& there, const Context& here);
/// The warning for a report with runs of both builds; empty if the builds are equal.
std::string difference_of_builds(const Context& there, const Context& here);

/// Measures the machine's peaks of matrix products again between rounds, because it may have been busy at the
/// start. context.json has the best value of each dtype, peaks.jsonl every measurement.
class PeakLog {
 public:
  /// `folder`: of the report.
  PeakLog(std::filesystem::path folder, ForkServer& workers, const RunSpec& base, Interrupts&);

  /// Measures after `rounds` rounds, while no run is alive, if the measurement takes a small share of the
  /// time since the last one. Returns the context with the best peaks; none: it was not measured.
  std::optional<Json> look(int64_t rounds, const Json& context);

 private:
  using Clock = std::chrono::steady_clock;

  std::filesystem::path folder_;
  ForkServer& workers_;
  const RunSpec& base_;
  Interrupts& interrupts_;
  Clock::time_point last_ = Clock::now();
  double measuring_s_ = 10;  ///< duration of a measurement; before the first, as on two cores
};

/// `context` with the maximum of its peaks and the other measured peaks.
Json with_best_peaks(Json context, const Json& other);

/// Counters of Linux for disturbances of a measurement, as one object of plain numbers; an absent one is
/// null. `root` is "/" but in tests.
///
///   clock_us                   a steady clock
///   cpu_ticks, steal_ticks     /proc/stat: all time of all CPUs, and what a hypervisor gave to others
///   load, running              /proc/loadavg: over a minute, and tasks that run or could, this one included
///   cpu_waiting_us             /proc/pressure/cpu: time in which some task waited for a CPU
///   throttled                  times that a core was slowed down for its heat
///   quota_throttled_us         time that the cgroup's limit of CPU time stopped this program
///   quota_cpus                 that limit, in CPUs; null: none
///   mhz                        of the fastest core
///   governor, huge_pages       settings, as text
Json read_machine_counters(const std::filesystem::path& root = "/");

/// A fixed piece of arithmetic and memory traffic, repeated on every core that this process may use. On a
/// quiet machine all pieces take the same time. No run of the experiment may be active meanwhile.
class NoiseProbe {
 public:
  /// `piece_s`: the time of a piece, which determines its amount of work.
  explicit NoiseProbe(int64_t threads, double piece_s = 0.01);

  /// Nanoseconds per unit of work for each piece, over all threads; at least one piece per thread.
  std::vector<double> measure(double seconds) const;

 private:
  int64_t threads_, units_ = 16;
};

/// Records how steady the machine is, by a probe and Linux's counters: one line per probe in noise.jsonl.
class NoiseLog {
 public:
  NoiseLog(std::filesystem::path file, double seconds_of_a_probe);

  /// Probes after `rounds` rounds, while no run is alive.
  void look(int64_t rounds);

 private:
  std::filesystem::path file_;
  double seconds_;
  std::optional<NoiseProbe> probe_;
};
}  // namespace optrush
