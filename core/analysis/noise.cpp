#include "analysis/noise.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "analysis/analysis.h"
#include "analysis/numbers/format.h"
#include "base/text.h"

namespace optrush {
namespace {
std::optional<int64_t> integer(const Json& counters, const char* key) {
  const auto it = counters.find(key);
  // Limit for counters, so that their sums and differences fit into int64.
  constexpr int64_t kMost = int64_t{1} << 60;
  if (it == counters.end() || !it->is_number_integer()) return std::nullopt;
  const auto value = it->get<int64_t>();
  return value >= 0 && value < kMost ? std::optional(value) : std::nullopt;
}

std::optional<int64_t> growth(const Json& from, const Json& to, const char* key) {
  const auto a = integer(from, key), b = integer(to, key);
  return a && b ? std::optional(*b - *a) : std::nullopt;
}

/// The number at `share` of the sorted numbers. Of ten or fewer, the 90th percentile is the largest.
double percentile(const std::vector<double>& sorted, double share) {
  const double at = share * static_cast<double>(sorted.size() - 1);
  return sorted[static_cast<size_t>(share > 0.5 ? std::ceil(at) : std::floor(at))];
}

/// A part of the warning, and its remedy.
struct Complaint {
  std::string what, cure;
};

std::vector<Complaint> complaints(const Noise& noise) {
  std::vector<Complaint> found;
  if (noise.spread > kQuietSpread)
    found.push_back({"identical work varied by " + percent(noise.spread, 0) + " in time",
                     "stop other programs, or use a dedicated machine"});
  if (noise.drift > kQuietDrift)
    found.push_back({"the time of equal probes varied by " + percent(noise.drift, 0) +
                         " (10th to 90th percentile)" +
                         (noise.slow > 0 ? "; " + slow_probes(noise) : std::string()),
                     "stop other programs, or use a dedicated machine"});
  if (noise.stolen.value_or(0) > kQuietStolen)
    found.push_back({"the hypervisor gave " + percent(*noise.stolen) + " of the CPU time to other machines",
                     "use a dedicated machine"});
  if (noise.waiting.value_or(0) > kQuietWaiting)
    found.push_back({"other tasks waited for a CPU during " + percent(*noise.waiting, 0) +
                         " of the time in which only the probe ran",
                     "stop other programs, or use a dedicated machine"});
  if (noise.throttled.value_or(0) > 0)
    found.push_back(
        {"the CPU lowered its clock " + std::to_string(*noise.throttled) + " times because of heat",
         "use better cooling, or limit the clock"});
  if (noise.quota_throttled_us.value_or(0) > 0)
    found.push_back({"the container's limit of CPU time stopped it for " +
                         duration(static_cast<double>(*noise.quota_throttled_us) * 1e-6),
                     "raise the limit, or set --threads to the number of CPUs that it allows"});
  return found;
}

constexpr size_t kFewestOfARun = 5;

/// None if there are few timed steps or their work differs, as with packed documents.
std::optional<double> spread_of_steps(const RunResult& result) {
  std::vector<double> seconds;
  const StepResult* first = nullptr;
  for (const StepResult& step : result.steps) {
    if (!step.timed) continue;
    if (first == nullptr) first = &step;
    if (step.tokens != first->tokens || step.positions != first->positions ||
        step.attention_pairs != first->attention_pairs)
      return std::nullopt;
    seconds.push_back(step.seconds);
  }
  if (seconds.size() < kFewestOfARun) return std::nullopt;
  std::ranges::sort(seconds);
  const auto quantile = [&](size_t tenths) { return seconds[tenths * (seconds.size() - 1) / 10]; };
  if (!(quantile(5) > 0)) return std::nullopt;
  return (quantile(9) - quantile(1)) / quantile(5);
}
}  // namespace

std::optional<Noise> noise_of(const std::vector<NoiseLine>& lines) {
  if (lines.empty()) return std::nullopt;
  Noise noise{.probes = lines.size()};
  std::vector<double> spreads, medians, waiting, running;
  double ticks = 0, stolen = 0;
  for (size_t i = 0; i < lines.size(); ++i) {
    const NoiseLine& line = lines[i];
    spreads.push_back(line.spread());
    medians.push_back(line.median);
    // Counts everything since the previous probe, because neighbours disturb the runs of a round. Counters
    // restart when the machine restarts. The time between two calls of the program does not belong to the
    // experiment; the second call starts with a probe of the same round.
    const bool goes_on = i > 0 && line.round > lines[i - 1].round;
    const Json& from = goes_on ? lines[i - 1].after : line.before;
    const auto all = growth(from, line.after, "cpu_ticks"), gone = growth(from, line.after, "steal_ticks");
    if (all && gone && *all > 0 && *gone >= 0) {
      ticks += static_cast<double>(*all);
      stolen += static_cast<double>(*gone);
    }
    if (const auto tasks = integer(line.before, "running"))
      running.push_back(static_cast<double>(*tasks - 1));
    if (const auto more = growth(from, line.after, "throttled"); more && *more >= 0)
      noise.throttled = noise.throttled.value_or(0) + *more;
    if (const auto more = growth(from, line.after, "quota_throttled_us"); more && *more >= 0)
      noise.quota_throttled_us = noise.quota_throttled_us.value_or(0) + *more;
    const auto waited = growth(line.before, line.after, "cpu_waiting_us"),
               took = growth(line.before, line.after, "clock_us");
    if (waited && took && *took > 0)
      waiting.push_back(static_cast<double>(*waited) / static_cast<double>(*took));
  }
  noise.spread = *median(spreads);
  const double usual = *median(medians);
  std::ranges::sort(medians);
  noise.drift = percentile(medians, 0.9) / percentile(medians, 0.1) - 1;
  noise.slowest = medians.back() / usual;
  noise.slow = static_cast<size_t>(
      std::ranges::count_if(medians, [&](double m) { return m > (1 + kQuietDrift) * usual; }));
  if (ticks > 0) noise.stolen = stolen / ticks;
  noise.waiting = median(waiting);
  noise.running = median(running);
  for (const auto& [key, type] : kMachineSettings)
    if (const auto it = lines.back().after.find(key); it != lines.back().after.end() && !it->is_null())
      noise.settings[key] = *it;
  return noise;
}

std::string slow_probes(const Noise& noise) {
  if (noise.slow == 0) return "";
  return std::to_string(noise.slow) + " of " + counted(noise.probes, "probe") +
         (noise.slow == 1 ? " was slow, with " : " were slow, the slowest with ") + fixed(noise.slowest, 2) +
         " times the usual time";
}

std::string noise_warning(const Noise& noise) {
  const auto found = complaints(noise);
  if (found.empty()) return "";
  std::vector<std::string> what, cures;
  for (const auto& complaint : found) {
    what.push_back(complaint.what);
    if (std::ranges::find(cures, complaint.cure) == cures.end()) cures.push_back(complaint.cure);
  }
  return "The machine was not quiet: " + join(what, "; ") + ". To improve it: " + join(cures, "; ") + ".";
}

std::optional<GpuSteps> gpu_steps_of(const std::vector<StoredRun>& runs) {
  std::optional<GpuSteps> gpu;
  std::vector<double> spreads;
  for (const StoredRun& run : runs) {
    if (run.result.device.empty()) continue;
    if (!run.result.on_gpu) return std::nullopt;
    if (!gpu) gpu.emplace();
    if (!run.result.ok() || run.spec.purpose != Purpose::measure) continue;
    if (const auto spread = spread_of_steps(run.result)) spreads.push_back(*spread);
    const double seconds = run.result.timed_seconds();
    if (!(seconds > 0) || seconds >= kLeastTimedSeconds) continue;
    ++gpu->short_runs;
    if (gpu->short_runs > 1 && seconds >= gpu->shortest_seconds) continue;
    gpu->shortest_seconds = seconds;
    gpu->its_step_seconds = run.result.step_seconds.value_or(0);
  }
  if (!gpu) return std::nullopt;
  gpu->runs = spreads.size();
  gpu->spread = median(std::move(spreads));
  return gpu;
}

std::string gpu_warning(const GpuSteps& gpu) {
  if (gpu.spread.value_or(0) <= kQuietSpread) return "";
  return "The GPU was not steady: equal steps of a run varied by " + percent(*gpu.spread, 0) +
         " in time. To improve it: stop other programs on the GPU, or lock its clocks.";
}

std::string short_steps_warning(const GpuSteps& gpu) {
  if (gpu.short_runs == 0) return "";
  std::string cure;
  if (gpu.its_step_seconds > 0)
    cure = "; set train.steps = " +
           std::to_string(std::llround(std::ceil(kLeastTimedSeconds / gpu.its_step_seconds)));
  return "The timed steps of " + counted(gpu.short_runs, "run") + " took less than " +
         duration(kLeastTimedSeconds) + " on the GPU, the shortest " + duration(gpu.shortest_seconds) +
         ". Clock and power of a GPU need that time to settle" + cure + ".";
}

std::vector<DisturbedRound> disturbed_rounds(const std::vector<Row>& rows) {
  constexpr double kFactor = 2;
  std::vector<DisturbedRound> all;
  std::map<int64_t, std::vector<double>> of_round;
  for (const Row& row : rows) {
    if (row.same_as >= 0 || row.samples.size() < kMinRounds || row.samples.size() != row.rounds.size())
      continue;
    const double usual = median(row.samples).value();
    if (!(usual > 0)) continue;
    for (size_t i = 0; i < row.samples.size(); ++i) {
      all.push_back({row.name, row.rounds[i], row.samples[i] / usual});
      of_round[row.rounds[i]].push_back(all.back().speed);
    }
  }
  std::map<int64_t, double> usual_of_round;
  for (auto& [round, speeds] : of_round) usual_of_round[round] = median(std::move(speeds)).value();
  for (DisturbedRound& each : all) each.speed /= usual_of_round.at(each.round);
  std::erase_if(
      all, [](const DisturbedRound& each) { return each.speed * kFactor >= 1 && each.speed <= kFactor; });
  return all;
}

std::string disturbed_warning(const std::vector<DisturbedRound>& rounds, bool more_rounds) {
  if (rounds.empty()) return {};
  constexpr size_t kNamed = 4;
  std::vector<std::string> names = texts_of(rounds, [](const DisturbedRound& each) {
    return "round " + std::to_string(each.round + 1) + " of " + name_in_text(each.row) +
           (each.speed < 1 ? " (" + percent(1 - each.speed, 0) + " slower)"
                           : " (" + fixed(each.speed, 1) + " times as fast)");
  });
  if (names.size() > kNamed) {
    names.resize(kNamed);
    names.push_back(std::to_string(rounds.size() - kNamed) + " more");
  }
  return "The machine was not steady. These rounds differ in speed from the other rounds of their rows: " +
         join(names) + ". The ratios and intervals of these rows depend on them. " +
         (more_rounds ? "Run more rounds (--resume --rounds N), or measure" : "Measure") +
         " again on a quiet machine.";
}
}  // namespace optrush
