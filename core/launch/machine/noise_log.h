#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "optrush/json.h"

namespace optrush {
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
