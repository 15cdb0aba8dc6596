#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

namespace optrush {
/// The number of processes that the kernel's out-of-memory killer has ended so far, by the counters that can
/// be read: the counters of this process's memory cgroup and of the job's cgroup above it (memory.events of
/// cgroup v2, memory.oom_control of v1), and of the whole machine (/proc/vmstat).
struct OomKills {
  std::map<std::string, int64_t> of_cgroups;  ///< by file
  std::optional<int64_t> of_machine;
  bool own_cgroup = false;  ///< whether the cgroup of this process is among them

  /// `root`: folder of the kernel's files; only tests use another one than "/".
  static OomKills read(const std::filesystem::path& root = "/");
  /// Whether the killer has ended a process of this cgroup between `before` and this. None if no counter can
  /// be read. The machine's counter decides only if the cgroup has none, because it also counts other jobs.
  std::optional<bool> rose_since(const OomKills& before) const;
};
}  // namespace optrush
