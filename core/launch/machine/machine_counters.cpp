#include "launch/machine/machine_counters.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>

namespace optrush {
namespace fs = std::filesystem;
namespace {
std::optional<std::string> text_in(const fs::path& file) {
  std::ifstream stream(file);
  if (!stream) return std::nullopt;
  std::string text;
  std::getline(stream, text, '\0');
  return text;
}

Json number_in(const fs::path& file) {
  std::ifstream stream(file);
  int64_t value = 0;
  return stream >> value ? Json(value) : Json();
}

/// The number after `key` in lines of the form "key value".
Json value_of(const std::optional<std::string>& text, const std::string& key) {
  if (!text) return nullptr;
  std::istringstream words(*text);
  for (std::string word; words >> word;) {
    int64_t value = 0;
    if (word == key && words >> value) return value;
  }
  return nullptr;
}

void add_cpu_time(const fs::path& root, Json& counters) {
  counters["cpu_ticks"] = counters["steal_ticks"] = nullptr;
  const auto text = text_in(root / "proc/stat");
  if (!text) return;
  std::istringstream line(*text);
  std::string cpu;
  line >> cpu;
  // user nice system idle iowait irq softirq steal; the other columns are part of user and nice.
  constexpr int kColumns = 8;
  int64_t sum = 0, ticks = 0;
  for (int i = 0; i < kColumns && line >> ticks; ++i) sum += ticks;
  if (!line) return;
  counters["cpu_ticks"] = sum;
  counters["steal_ticks"] = ticks;
}

void add_load(const fs::path& root, Json& counters) {
  counters["load"] = counters["running"] = nullptr;
  std::ifstream stream(root / "proc/loadavg");
  double one = 0, five = 0, fifteen = 0;
  int64_t running = 0;
  if (!(stream >> one >> five >> fifteen >> running)) return;
  counters["load"] = one;
  counters["running"] = running;
}

void add_pressure(const fs::path& root, Json& counters) {
  counters["cpu_waiting_us"] = nullptr;
  const auto text = text_in(root / "proc/pressure/cpu");
  const size_t at = text ? text->find("total=") : std::string::npos;
  if (at != std::string::npos) counters["cpu_waiting_us"] = std::stoll(text->substr(at + 6));
}

void add_cores(const fs::path& root, Json& counters) {
  counters["throttled"] = counters["mhz"] = counters["governor"] = nullptr;
  const fs::path cpus = root / "sys/devices/system/cpu";
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(cpus, none)) {
    const Json throttled = number_in(entry.path() / "thermal_throttle/core_throttle_count");
    if (!throttled.is_null())
      counters["throttled"] = (counters["throttled"].is_null() ? 0 : counters["throttled"].get<int64_t>()) +
                              throttled.get<int64_t>();
    const Json khz = number_in(entry.path() / "cpufreq/scaling_cur_freq");
    if (!khz.is_null() &&
        (counters["mhz"].is_null() || khz.get<int64_t>() / 1000 > counters["mhz"].get<int64_t>()))
      counters["mhz"] = khz.get<int64_t>() / 1000;
  }
  std::ifstream governor(cpus / "cpu0/cpufreq/scaling_governor");
  if (std::string name; governor >> name) counters["governor"] = name;
}

/// "always [madvise] never" becomes "madvise".
void add_huge_pages(const fs::path& root, Json& counters) {
  counters["huge_pages"] = nullptr;
  const auto text = text_in(root / "sys/kernel/mm/transparent_hugepage/enabled");
  if (!text) return;
  const size_t open = text->find('['), close = text->find(']');
  if (open != std::string::npos && close != std::string::npos && close > open)
    counters["huge_pages"] = text->substr(open + 1, close - open - 1);
}

/// The cgroup folder of this process if it is visible, otherwise the root of the container's.
fs::path cgroup_of(const fs::path& root) {
  const fs::path groups = root / "sys/fs/cgroup";
  std::ifstream stream(root / "proc/self/cgroup");
  for (std::string line; std::getline(stream, line);)
    if (line.starts_with("0::/") && fs::exists(groups / line.substr(4) / "cpu.stat"))
      return groups / line.substr(4);
  return groups;
}

void add_quota(const fs::path& root, Json& counters) {
  counters["quota_cpus"] = nullptr;
  const fs::path group = cgroup_of(root);
  counters["quota_throttled_us"] = value_of(text_in(group / "cpu.stat"), "throttled_usec");
  std::ifstream stream(group / "cpu.max");
  double quota = 0, period = 0;
  if (stream >> quota >> period && period > 0) counters["quota_cpus"] = quota / period;
}
}  // namespace

Json read_machine_counters(const fs::path& root) {
  Json counters = Json::object();
  counters["clock_us"] = std::chrono::duration_cast<std::chrono::microseconds>(
                             std::chrono::steady_clock::now().time_since_epoch())
                             .count();
  add_cpu_time(root, counters);
  add_load(root, counters);
  add_pressure(root, counters);
  add_cores(root, counters);
  add_huge_pages(root, counters);
  add_quota(root, counters);
  return counters;
}
}  // namespace optrush
