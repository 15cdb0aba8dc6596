#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

namespace optrush {
/// How many processes the kernel's out-of-memory killer has ended so far, by the counters that can be read:
/// of this process's memory cgroup and of the job's above it (memory.events of cgroup v2, memory.oom_control
/// of v1), and of the whole machine (/proc/vmstat).
struct OomKills {
  std::map<std::string, int64_t> of_cgroups;  ///< by file
  std::optional<int64_t> of_machine;
  bool own_cgroup = false;  ///< whether that of this process is among them

  /// `root` is where the files of the kernel are: "/", but in tests.
  static OomKills read(const std::filesystem::path& root = "/");
  /// Whether the killer has ended a process of this cgroup between `before` and this. None where no counter
  /// tells. The machine's counter decides only where the cgroup has none, as it counts other jobs as well.
  std::optional<bool> rose_since(const OomKills& before) const;
};
}  // namespace optrush
