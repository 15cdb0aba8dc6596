#include "launch/machine.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <set>
#include <sstream>
#include <thread>

#include "base/files.h"
#include "base/seconds_since.h"
#include "base/temporary_folder.h"
#include "base/text.h"
#include "build_info.h"
#include "launch/run/result.h"
#include "machine/cores.h"
#include "machine/environment.h"
#include "machine/installation.h"
#include "machine/kernel_files.h"
#include "optrush/error.h"
#include "process/process.h"
#include "results/noise_line.h"
#include "spec/record.h"

namespace optrush {
namespace fs = std::filesystem;

namespace {
constexpr Limits kDoctorLimits{.timeout_s = 300}, kGitLimits{.timeout_s = 10};

/// The commit of this program: from its installation, or from its source tree at present; "" if unknown.
std::string commit(Interrupts& interrupts) {
  const Installation here = Installation::of_this_program();
  if (!here.commit.empty() || here.source.empty()) return here.commit;
  const TemporaryFolder folder;
  const fs::path log = folder.path() / "log.txt";
  try {
    const Command git{{"git", "-C", here.source, "describe", "--always", "--dirty", "--exclude=*"}, {}, log};
    const ProcessEnd end = run_process(git, kGitLimits, interrupts);
    return end.ok() ? first_line(read_file(log)) : "";
  } catch (const Error&) {  // git is not installed
    return "";
  }
}

/// The kinds of GPUs. Their number may change: each run has the number of its ranks.
std::string gpus_of(const Context& context) {
  std::set<std::string> names;
  for (const GpuInfo& gpu : context.gpus) names.insert(gpu.name);
  return names.empty() ? "none" : join({names.begin(), names.end()});
}

/// The kinds of machines of a job: "Xeon", "Xeon with H100". Their number and their ranks may change.
std::set<std::string> kinds_of_hosts(const Context& context) {
  std::set<std::string> kinds;
  for (const HostContext& host : context.hosts) {
    std::set<std::string> gpus;  // of "8 x H100, 1 x A2"
    for (const std::string& gpu : split(host.gpus, ", "))
      gpus.insert(gpu.substr(std::min(gpu.size(), gpu.find(" x ") + 3)));
    kinds.insert(host.cpu + (host.gpus.empty() ? "" : " with " + join({gpus.begin(), gpus.end()})));
  }
  return kinds;
}

/// Share of an experiment's time.
constexpr double kShareOfTime = 0.05;

bool has_peaks(const Json& context) {
  const Json::json_pointer pointer("/peak/dtype_flops");
  return context.contains(pointer) && context.at(pointer).is_object();
}

void note(const fs::path& file, int64_t rounds, const Json& context) {
  const Json line = {{"round", rounds}, {"dtype_flops", context.at("peak").at("dtype_flops")}};
  append_line(file, line.dump());
}

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

Json ask_doctor(RunSpec base, ForkServer& workers, bool quick, Interrupts& interrupts) {
  base.environment.clear();  // of runs; without it the plans of most experiments come from the same server
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "context.json", log = folder.path() / "log.txt";
  Command command{{workers.worker(), "doctor", "--json", out, "--device", base.device, "--threads",
                   std::to_string(base.threads)},
                  worker_environment(base),
                  log};
  if (quick) command.arguments.emplace_back("--quick");
  const ProcessEnd end = workers.run(command, kDoctorLimits, interrupts);
  if (end.kind == ProcessEnd::Kind::exited && is_there(out)) return read_json(out);
  return {{"doctor", describe_bad_end(end, kDoctorLimits).reason + "\n" + log_tail(log)}};
}

std::optional<Json> describe_machine(const Experiment& experiment, ForkServer& workers, bool quick,
                                     Interrupts& interrupts) {
  Json context = {{"date", utc_now()},
                  {"optrush_version", OPTRUSH_VERSION},
                  {"commit", commit(interrupts)},
                  {"host", host_name()}};
  if (interrupts.signal() != 0) return std::nullopt;
  context.update(ask_doctor(experiment.base, workers, quick, interrupts));
  if (interrupts.signal() != 0) return std::nullopt;
  context["script"] = experiment.script;
  context["script_sha256"] = experiment.script_sha256;
  return context;
}

std::string difference_of_machines(const Context& there, const Context& here) {
  const auto differ = [](const std::string& what, const std::string& a, const std::string& b) {
    return what + " '" + a + "' there, '" + b + "' here";
  };
  if (there.cpu.name != here.cpu.name) return differ("CPU", there.cpu.name, here.cpu.name);
  if (gpus_of(there) != gpus_of(here)) return differ("GPUs", gpus_of(there), gpus_of(here));
  // A job may have lost machines, or other ones of the same kinds.
  if (const auto before = kinds_of_hosts(there), now = kinds_of_hosts(here);
      !before.empty() && !std::ranges::includes(before, now))
    return differ("machines", join({before.begin(), before.end()}, "; "),
                  join({now.begin(), now.end()}, "; "));
  // Without threads in the spec, another number makes another computation.
  if (there.threads && here.threads && *there.threads != *here.threads)
    return differ("CPU threads", std::to_string(*there.threads), std::to_string(*here.threads));
  return {};
}

std::string difference_of_builds(const Context& there, const Context& here) {
  const auto build = [](const Context& context) {
    return context.optrush_version + (context.commit.empty() ? "" : " (" + context.commit + ")");
  };
  if (build(there) == build(here)) return {};
  return "the report mixes runs of different builds of optrush: " + build(there) + ", and " + build(here);
}

Json with_best_peaks(Json context, const Json& other) {
  if (!has_peaks(context) || !has_peaks(other)) return context;
  Json& peak = context["peak"];
  for (const auto& [dtype, flops] : other.at("peak").at("dtype_flops").items()) {
    Json& own = peak["dtype_flops"][dtype];
    if (flops.is_number() && (!own.is_number() || own < flops)) own = flops;
  }
  // If MFU uses the maker's figure, there is nothing to measure.
  if (peak.value("source", "") == "measured" && other.at("peak").value("source", "") == "measured" &&
      other.at("peak").value("mfu_denominator", 0.0) > peak.value("mfu_denominator", 0.0))
    for (const char* key : {"mfu_dtype", "mfu_denominator"}) peak[key] = other.at("peak").at(key);
  return context;
}

PeakLog::PeakLog(fs::path folder, ForkServer& workers, const RunSpec& base, Interrupts& interrupts)
    : folder_(std::move(folder)), workers_(workers), base_(base), interrupts_(interrupts) {}

std::optional<Json> PeakLog::look(int64_t rounds, const Json& before) {
  const fs::path log = folder_ / "peaks.jsonl";
  if (interrupts_.signal() != 0 || measuring_s_ > kShareOfTime * seconds_since(last_) || !has_peaks(before))
    return std::nullopt;
  last_ = Clock::now();
  const Json now = ask_doctor(base_, workers_, /*quick=*/false, interrupts_);
  measuring_s_ = seconds_since(last_);
  if (interrupts_.signal() != 0 || !has_peaks(now)) return std::nullopt;
  close_torn_line(log);
  if (!fs::exists(log)) note(log, 0, before);
  note(log, rounds, now);
  return with_best_peaks(before, now);
}

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
