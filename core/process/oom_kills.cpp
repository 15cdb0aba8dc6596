#include "process/oom_kills.h"

#include <fstream>
#include <vector>

#include "machine/kernel_files.h"

namespace optrush {
namespace fs = std::filesystem;

namespace {
std::optional<int64_t> kills_in(const fs::path& file) { return number_after("oom_kill", kernel_text(file)); }

struct MemoryCgroup {
  std::vector<fs::path> mounts;  ///< folders where its hierarchy may be mounted
  std::string path;              ///< path below the mount
  std::string counters;          ///< name of the file
};

/// "4:memory:/slurm/job_7/step_0" of v1, "0::/slurm/job_7/step_0" of v2.
std::optional<MemoryCgroup> memory_cgroup(const std::string& line, const fs::path& groups) {
  const size_t first = line.find(':');
  const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
  if (second == std::string::npos) return std::nullopt;
  const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
  std::string path = line.substr(second + 1);
  if (controllers == ",,")
    return MemoryCgroup{{groups, groups / "unified"}, std::move(path), "memory.events"};
  if (controllers.find(",memory,") == std::string::npos) return std::nullopt;
  return MemoryCgroup{{groups / "memory"}, std::move(path), "memory.oom_control"};
}

/// SLURM limits the cgroup of a job, and processes are in one of a task below it.
bool is_of_a_job(const fs::path& group) { return group.filename().string().starts_with("job_"); }
}  // namespace

OomKills OomKills::read(const fs::path& root) {
  OomKills kills;
  kills.of_machine = kills_in(root / "proc/vmstat");
  std::ifstream in(root / "proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    const auto group = memory_cgroup(line, root / "sys/fs/cgroup");
    if (!group) continue;
    const fs::path own = fs::path(group->path).relative_path();
    for (const fs::path& mount : group->mounts) {
      const auto add_counter = [&](const fs::path& path) {
        const fs::path file = mount / path / group->counters;
        const auto count = kills_in(file);
        if (count) kills.of_cgroups[file.string()] = *count;
        return count.has_value();
      };
      // A container may see its own cgroup as the root.
      if (add_counter(own) || add_counter("")) kills.own_cgroup = true;
      for (fs::path above = own.parent_path(); !above.empty(); above = above.parent_path())
        if (is_of_a_job(above)) add_counter(above);
    }
  }
  return kills;
}

std::optional<bool> OomKills::rose_since(const OomKills& before) const {
  for (const auto& [file, count] : of_cgroups)
    if (const auto found = before.of_cgroups.find(file);
        found != before.of_cgroups.end() && count > found->second)
      return true;
  if (own_cgroup && before.own_cgroup) return false;
  if (!of_machine || !before.of_machine) return std::nullopt;
  return *of_machine > *before.of_machine;
}
}  // namespace optrush
