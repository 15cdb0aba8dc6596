#pragma once
#include <filesystem>

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
}  // namespace optrush
