#include "launch/machine/noise_log.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <sstream>
#include <thread>

#include "base/files.h"
#include "base/seconds_since.h"
#include "machine/cores.h"
#include "machine/kernel_files.h"
#include "results/noise_line.h"
#include "spec/record.h"

namespace optrush {
namespace fs = std::filesystem;

namespace {
using Clock = std::chrono::steady_clock;

/// Larger than the caches of a core, like tensors.
constexpr size_t kWords = size_t{1} << 20;  // 8 MiB
constexpr int64_t kWordsOfUnit = 1024;

/// Reads, mixes and writes one word after another.
uint64_t work(std::vector<uint64_t>& memory, size_t& at, int64_t units) {
  uint64_t state = 88172645463325252U;
  for (int64_t i = 0; i < units * kWordsOfUnit; ++i) {
    state ^= state << 13U;
    state ^= state >> 7U;
    state ^= state << 17U;
    memory[at] += state;
    at = (at + 1) % kWords;
  }
  return state ^ memory[at];
}

/// Runs pieces on one core until the time is over. The sum of their results keeps the compiler from removing
/// the work.
std::vector<double> pieces_of_core(int64_t units, double seconds, std::atomic<uint64_t>& sum) {
  std::vector<uint64_t> memory(kWords, 1);
  size_t at = 0;
  std::vector<double> pieces;
  const auto start = Clock::now();
  do {
    const auto before = Clock::now();
    sum += work(memory, at, units);
    pieces.push_back(seconds_since(before) * 1e9 / static_cast<double>(units));
  } while (seconds_since(start) < seconds);
  return pieces;
}

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

NoiseProbe::NoiseProbe(int64_t threads, double piece_s) : threads_(std::max<int64_t>(1, threads)) {
  std::atomic<uint64_t> sum = 0;
  const auto pieces = pieces_of_core(units_, piece_s, sum);
  const double fastest = std::ranges::min(pieces) * 1e-9;
  units_ = std::clamp<int64_t>(std::llround(piece_s / fastest), 1, 1000000);
}

std::vector<double> NoiseProbe::measure(double seconds) const {
  std::atomic<uint64_t> sum = 0;
  std::vector<std::vector<double>> found(static_cast<size_t>(threads_));
  {
    std::vector<std::jthread> threads;
    for (auto& pieces : found)
      threads.emplace_back([&, this] { pieces = pieces_of_core(units_, seconds, sum); });
  }
  std::vector<double> all;
  for (const auto& pieces : found) all.insert(all.end(), pieces.begin(), pieces.end());
  return all;
}

NoiseLog::NoiseLog(std::filesystem::path file, double seconds) : file_(std::move(file)), seconds_(seconds) {
  close_torn_line(file_);
}

void NoiseLog::look(int64_t rounds) {
  const Json before = read_machine_counters();
  if (!probe_) probe_.emplace(usable_cores());
  const auto pieces = probe_->measure(seconds_);
  const Json line = to_json(noise_line(rounds, pieces, before, read_machine_counters()));
  append_line(file_, line.dump());
}

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
