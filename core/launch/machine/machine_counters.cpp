#include <algorithm>
#include <chrono>
#include <sstream>

#include "launch/machine/noise_log.h"
#include "machine/kernel_files.h"
#include "spec/record.h"

namespace optrush {
namespace fs = std::filesystem;
namespace {
void add_cpu_time(const fs::path& root, Json& counters) {
  counters["cpu_ticks"] = counters["steal_ticks"] = nullptr;
  std::istringstream line(kernel_text(root / "proc/stat"));
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
  std::istringstream text(kernel_text(root / "proc/loadavg"));
  double one = 0, five = 0, fifteen = 0;
  int64_t running = 0;
  if (!(text >> one >> five >> fifteen >> running)) return;
  counters["load"] = one;
  counters["running"] = running;
}

void add_pressure(const fs::path& root, Json& counters) {
  const std::string text = kernel_text(root / "proc/pressure/cpu");
  const size_t at = text.find("total=");
  counters["cpu_waiting_us"] =
      at == std::string::npos ? Json() : record::written(first_number<int64_t>(text.substr(at + 6)));
}

void add_cores(const fs::path& root, Json& counters) {
  const fs::path cpus = root / "sys/devices/system/cpu";
  std::optional<int64_t> throttled, mhz;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(cpus, none)) {
    const auto number_in = [&](const char* file) {
      return first_number<int64_t>(kernel_text(entry.path() / file));
    };
    if (const auto times = number_in("thermal_throttle/core_throttle_count"))
      throttled = throttled.value_or(0) + *times;
    if (const auto khz = number_in("cpufreq/scaling_cur_freq")) mhz = std::max(mhz.value_or(0), *khz / 1000);
  }
  const std::string governor = kernel_text(cpus / "cpu0/cpufreq/scaling_governor");
  counters["governor"] = governor.empty() ? Json() : Json(governor);
  counters["mhz"] = record::written(mhz);
  counters["throttled"] = record::written(throttled);
}

void add_huge_pages(const fs::path& root, Json& counters) {
  const std::string choices = kernel_text(root / "sys/kernel/mm/transparent_hugepage/enabled");
  counters["huge_pages"] = choices.find('[') == std::string::npos ? Json() : Json(chosen_word(choices));
}

void add_quota(const fs::path& root, Json& counters) {
  counters["quota_cpus"] = record::written(cpu_quota(root));
  counters["quota_throttled_us"] =
      record::written(number_after("throttled_usec", control_group(root, "cpu.stat")));
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
