#include "measure/cpu_info.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string_view>

#include "base/files.h"

namespace optrush {
namespace fs = std::filesystem;
namespace {
constexpr std::string_view kSpace = " \t\r\n";

std::string trimmed(const std::string& text) {
  const size_t begin = text.find_first_not_of(kSpace);
  return begin == std::string::npos ? "" : text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

// The content of a file, or "". Missing files are normal here: kernels, containers and processors differ in
// what they offer.
std::string contents(const fs::path& file) {
  std::ifstream in(file);
  return trimmed(rest_of(in));
}

/// The number at the start of `text`; `otherwise` if there is none.
template <class T>
T number(std::string_view text, T otherwise) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() ? value : otherwise;
}

/// Parses a list such as "0-3,8".
std::set<int64_t> processor_list(const std::string& text) {
  std::set<int64_t> processors;
  std::istringstream ranges(text);
  for (std::string range; std::getline(ranges, range, ',');) {
    const size_t dash = range.find('-');
    const int64_t first = number<int64_t>(range, -1);
    const int64_t last =
        dash == std::string::npos ? first : number<int64_t>(std::string_view(range).substr(dash + 1), -1);
    for (int64_t p = first; p >= 0 && p <= last; ++p) processors.insert(p);
  }
  return processors;
}

/// Parses lines of the form "key : value".
std::map<std::string, std::string> key_values(const std::string& text) {
  std::map<std::string, std::string> values;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t colon = line.find(':');
    if (colon != std::string::npos)
      values.emplace(trimmed(line.substr(0, colon)), trimmed(line.substr(colon + 1)));
  }
  return values;
}

std::vector<std::map<std::string, std::string>> processors_of(const std::string& cpuinfo) {
  std::vector<std::map<std::string, std::string>> processors;
  for (size_t begin = 0; begin < cpuinfo.size();) {
    const size_t end = std::min(cpuinfo.find("\n\n", begin), cpuinfo.size());
    auto fields = key_values(cpuinfo.substr(begin, end - begin));
    if (fields.contains("processor")) processors.push_back(std::move(fields));
    begin = end + 2;
  }
  return processors;
}

std::vector<std::string> instruction_sets(const std::string& flags) {
  static constexpr std::string_view kReported[] = {
      "sse4_2",      "avx",         "avx2",        "fma",      "f16c",     "avx_vnni", "avx512f",
      "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_tile", "amx_int8", "amx_bf16", "amx_fp16",
      "asimd",       "asimdhp",     "i8mm",        "bf16",     "sve",      "sve2",     "sme"};
  std::istringstream words(flags);
  const std::set<std::string, std::less<>> present(std::istream_iterator<std::string>(words), {});
  std::vector<std::string> isa;
  for (const auto name : kReported)
    if (present.contains(name)) isa.emplace_back(name);
  return isa;
}

/// Removes AMX from `isa` if CPUID lacks leaf 0x1D, which describes its tiles: some virtual machines announce
/// AMX without that leaf. Returns whether it was removed.
bool drop_undescribed_amx(std::vector<std::string>& isa, int64_t cpuid_level) {
  constexpr int64_t kTileLeaf = 0x1D;
  if (cpuid_level >= kTileLeaf) return false;
  return std::erase_if(isa, [](const std::string& name) { return name.starts_with("amx_"); }) > 0;
}

int64_t cache_size(const std::string& text) {
  const int64_t value = number<int64_t>(text, 0);
  return text.ends_with('K') ? value << 10 : text.ends_with('M') ? value << 20 : value;
}

/// Bytes of the last-level caches; a cache that several processors share counts once.
int64_t last_level_cache(const fs::path& root, const std::set<int64_t>& processors) {
  std::map<std::string, int64_t> caches;
  for (const int64_t processor : processors) {
    const fs::path folder = root / "sys/devices/system/cpu" / ("cpu" + std::to_string(processor)) / "cache";
    int64_t level = 0;
    fs::path last;
    std::error_code absent;
    for (const auto& entry : fs::directory_iterator(folder, absent)) {
      const int64_t this_level = number<int64_t>(contents(entry.path() / "level"), 0);
      if (this_level > level && contents(entry.path() / "type") != "Instruction") {
        level = this_level;
        last = entry.path();
      }
    }
    if (level > 0) caches[contents(last / "shared_cpu_list")] = cache_size(contents(last / "size"));
  }
  int64_t total = 0;
  for (const auto& [sharers, bytes] : caches) total += bytes;
  return total;
}

/// A file of this process's control group (version 2), or of the root group, because a container sees its own
/// group there.
std::string control_group(const fs::path& root, const std::string& file) {
  const std::string groups = contents(root / "proc/self/cgroup");
  if (const size_t at = groups.find("0::/"); at != std::string::npos) {
    const std::string path = groups.substr(at + 4, groups.find('\n', at) - at - 4);
    if (std::string text = contents(root / "sys/fs/cgroup" / path / file); !text.empty()) return text;
  }
  return contents(root / "sys/fs/cgroup" / file);
}

double cpu_quota(const fs::path& root) {
  const std::string limit = control_group(root, "cpu.max");  // for example "200000 100000" or "max 100000"
  const size_t space = limit.find(' ');
  if (space == std::string::npos) return 0;
  const double period = number<double>(std::string_view(limit).substr(space + 1), 0);
  return period > 0 ? number<double>(limit, 0) / period : 0;
}

void read_memory(const fs::path& root, CpuInfo& cpu) {
  auto memory = key_values(contents(root / "proc/meminfo"));
  cpu.memory_bytes = number<int64_t>(memory["MemTotal"], 0) << 10;
  cpu.available_bytes = number<int64_t>(memory["MemAvailable"], 0) << 10;
  if (const int64_t limit = number<int64_t>(control_group(root, "memory.max"), 0); limit > 0) {
    const int64_t used = number<int64_t>(control_group(root, "memory.current"), 0);
    cpu.memory_bytes = std::min(cpu.memory_bytes, limit);
    cpu.available_bytes = std::min(cpu.available_bytes, std::max<int64_t>(0, limit - used));
  }
}

/// The choice in brackets: "madvise" in "always [madvise] never".
std::string selected(const std::string& choices) {
  const size_t begin = choices.find('[');
  return begin == std::string::npos ? choices : choices.substr(begin + 1, choices.find(']') - begin - 1);
}
}  // namespace

CpuInfo read_cpu(const fs::path& root) {
  CpuInfo cpu;
  auto processors = processors_of(contents(root / "proc/cpuinfo"));
  auto status = key_values(contents(root / "proc/self/status"));
  const std::set<int64_t> allowed = processor_list(status["Cpus_allowed_list"]);
  std::set<int64_t> used;
  std::set<std::pair<std::string, std::string>> cores;
  for (auto& fields : processors) {
    const int64_t index = number<int64_t>(fields["processor"], 0);
    if (!allowed.empty() && !allowed.contains(index)) continue;
    used.insert(index);
    // Virtual machines and ARM do not list cores. Then each processor counts as a core.
    const bool known = fields.contains("core id");
    cores.emplace(fields["physical id"], known ? fields["core id"] : "processor " + fields["processor"]);
    if (!cpu.name.empty() || !cpu.isa.empty()) continue;
    cpu.name = fields["model name"];
    cpu.isa = instruction_sets(fields[fields.contains("flags") ? "flags" : "Features"]);
    cpu.broken_amx = drop_undescribed_amx(cpu.isa, number<int64_t>(fields["cpuid level"], 0));
  }
  if (cpu.name.empty()) cpu.name = "unknown processor";
  cpu.threads = static_cast<int64_t>(used.size());
  cpu.cores = static_cast<int64_t>(cores.size());
  cpu.quota = cpu_quota(root);
  cpu.cache_bytes = last_level_cache(root, used);
  read_memory(root, cpu);
  const fs::path frequency = root / "sys/devices/system/cpu/cpu0/cpufreq";
  cpu.governor = contents(frequency / "scaling_governor");
  cpu.governor_driver = contents(frequency / "scaling_driver");
  cpu.huge_pages = selected(contents(root / "sys/kernel/mm/transparent_hugepage/enabled"));
  cpu.load = number<double>(contents(root / "proc/loadavg"), 0);
  return cpu;
}

CpuTimes read_cpu_times(const fs::path& root) {
  CpuTimes times;
  std::istringstream lines(contents(root / "proc/stat"));
  for (std::string line; std::getline(lines, line) && line.starts_with("cpu");) {
    if (line[3] != ' ') {
      ++times.processors;
      continue;
    }
    // Fields: user nice system idle iowait irq softirq steal. Steal is the hypervisor's share and not work of
    // this machine.
    std::istringstream fields(line.substr(4));
    std::string field;
    for (int i = 0; i < 8 && fields >> field; ++i) {
      const double jiffies = number<double>(field, 0);
      times.total += jiffies;
      if (i != 3 && i != 4 && i != 7) times.busy += jiffies;
    }
  }
  return times;
}

double busy_processors(const CpuTimes& before, const CpuTimes& after) {
  const double total = after.total - before.total;
  return total > 0 ? (after.busy - before.busy) / total * static_cast<double>(after.processors) : 0;
}

std::string operating_system(const fs::path& root) {
  std::istringstream lines(contents(root / "etc/os-release"));
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("PRETTY_NAME=")) continue;
    std::string name = line.substr(12);
    std::erase(name, '"');
    return name;
  }
  return "unknown";
}
}  // namespace optrush
