#include "measure/cpu_info.h"

#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "machine/kernel_files.h"

namespace optrush {
namespace fs = std::filesystem;
namespace {
template <class T>
T number(std::string_view text, T otherwise) {
  return first_number<T>(text).value_or(otherwise);
}

/// Parses a list such as "0-3,8".
std::set<int64_t> processor_list(const std::string& text) {
  std::set<int64_t> processors;
  for (const std::string& range : split(text, ",")) {
    const size_t dash = range.find('-');
    const int64_t first = number<int64_t>(range, -1);
    const int64_t last =
        dash == std::string::npos ? first : number<int64_t>(std::string_view(range).substr(dash + 1), -1);
    for (int64_t p = first; p >= 0 && p <= last; ++p) processors.insert(p);
  }
  return processors;
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

/// Removes AMX from `isa` if CPUID lacks leaf 0x1D, which describes its tiles. Returns whether it did.
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
      const int64_t this_level = number<int64_t>(kernel_text(entry.path() / "level"), 0);
      if (this_level > level && kernel_text(entry.path() / "type") != "Instruction") {
        level = this_level;
        last = entry.path();
      }
    }
    if (level > 0) caches[kernel_text(last / "shared_cpu_list")] = cache_size(kernel_text(last / "size"));
  }
  int64_t total = 0;
  for (const auto& [sharers, bytes] : caches) total += bytes;
  return total;
}

void read_memory(const fs::path& root, CpuInfo& cpu) {
  auto memory = key_values(kernel_text(root / "proc/meminfo"));
  cpu.memory_bytes = number<int64_t>(memory["MemTotal"], 0) << 10;
  cpu.available_bytes = number<int64_t>(memory["MemAvailable"], 0) << 10;
  if (const int64_t limit = number<int64_t>(control_group(root, "memory.max"), 0); limit > 0) {
    const int64_t used = number<int64_t>(control_group(root, "memory.current"), 0);
    cpu.memory_bytes = std::min(cpu.memory_bytes, limit);
    cpu.available_bytes = std::min(cpu.available_bytes, std::max<int64_t>(0, limit - used));
  }
}

/// None for an empty text, with which the kernel says that it has no value.
std::optional<std::string> if_known(std::string text) {
  return text.empty() ? std::nullopt : std::optional(std::move(text));
}
}  // namespace

Record<CpuInfo> record_of(const CpuInfo*) {
  return Record<CpuInfo>("the CPU")
      .open()
      .field("name", &CpuInfo::name, {.promised = true})
      .field("model", &CpuInfo::model, "family and model: several processors may have one name",
             {.nullable = true})
      .field("cores", &CpuInfo::cores, "physical cores that the process may use",
             {.promised = true, .schema = {{"minimum", 1}}})
      .field("threads", &CpuInfo::threads, "logical processors that the process may use",
             {.promised = true, .schema = {{"minimum", 1}}})
      .field("quota", &CpuInfo::quota, "processors that the control group allows", {.nullable = true})
      .field("isa", &CpuInfo::isa, "instruction sets relevant for training", {.promised = true})
      .field("cache_bytes", &CpuInfo::cache_bytes, "bytes of all last-level caches", {.nullable = true})
      .field("memory_bytes", &CpuInfo::memory_bytes, {.promised = true, .schema = {{"minimum", 1}}})
      .field("governor", &CpuInfo::governor, {.nullable = true})
      .field("huge_pages", &CpuInfo::huge_pages, "always, madvise or never", {.nullable = true})
      .field("load_average", &CpuInfo::load_average)
      .field("busy", &CpuInfo::busy, "processors that other programs used before the measurement");
}

CpuInfo read_cpu(const fs::path& root) {
  CpuInfo cpu;
  auto processors = processors_of(kernel_text(root / "proc/cpuinfo"));
  auto status = key_values(kernel_text(root / "proc/self/status"));
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
    if (fields.contains("cpu family"))
      cpu.model = "family " + fields["cpu family"] + ", model " + fields["model"];
    else if (fields.contains("CPU part"))
      cpu.model = "part " + fields["CPU part"];
    cpu.isa = instruction_sets(fields[fields.contains("flags") ? "flags" : "Features"]);
    cpu.broken_amx = drop_undescribed_amx(cpu.isa, number<int64_t>(fields["cpuid level"], 0));
  }
  if (cpu.name.empty()) cpu.name = "unknown processor";
  cpu.threads = static_cast<int64_t>(used.size());
  cpu.cores = static_cast<int64_t>(cores.size());
  cpu.quota = cpu_quota(root);
  if (const int64_t bytes = last_level_cache(root, used); bytes > 0) cpu.cache_bytes = bytes;
  read_memory(root, cpu);
  const fs::path frequency = root / "sys/devices/system/cpu/cpu0/cpufreq";
  cpu.governor = if_known(kernel_text(frequency / "scaling_governor"));
  cpu.governor_driver = kernel_text(frequency / "scaling_driver");
  cpu.huge_pages = if_known(chosen_word(kernel_text(root / "sys/kernel/mm/transparent_hugepage/enabled")));
  cpu.load_average = number<double>(kernel_text(root / "proc/loadavg"), 0);
  return cpu;
}

CpuTimes read_cpu_times(const fs::path& root) {
  CpuTimes times;
  std::istringstream lines(kernel_text(root / "proc/stat"));
  for (std::string line; std::getline(lines, line) && line.starts_with("cpu");) {
    if (line[3] != ' ') {
      ++times.processors;
      continue;
    }
    // Fields: user nice system idle iowait irq softirq steal. Steal is the hypervisor's share.
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
  std::istringstream lines(kernel_text(root / "etc/os-release"));
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("PRETTY_NAME=")) continue;
    std::string name = line.substr(12);
    std::erase(name, '"');
    return name;
  }
  return "unknown";
}
}  // namespace optrush
