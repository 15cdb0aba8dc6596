#include "analysis/noise.h"

#include <gmock/gmock.h>

#include "analysis/analysis.h"
#include "base/files.h"
#include "base/temporary_folder.h"
#include "launch/machine.h"
#include "report/sections/document.h"

namespace optrush {
namespace {
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Probe times of 100 ns with a spread. A second passes between probes.
NoiseLine line(int64_t round, double spread = 0.01, double pace = 1, const Json& changes = Json::object()) {
  std::vector<double> pieces;
  for (int i = 0; i <= 100; ++i) pieces.push_back(100 * pace * (1 + spread * (i - 50) / 80.0));
  Json before = {{"clock_us", round * 1000000}, {"cpu_ticks", round * 200}, {"steal_ticks", 0},
                 {"cpu_waiting_us", 0},         {"throttled", 0},           {"running", 1}};
  Json after = before;
  after["clock_us"] = round * 1000000 + 500000;
  after["cpu_ticks"] = round * 200 + 100;
  after.update(changes);
  return noise_line(round, pieces, before, after);
}

TEST(Noise, AQuietMachineHasNoWarning) {
  const auto noise = noise_of({line(0), line(1), line(2)});
  ASSERT_TRUE(noise);
  EXPECT_EQ(noise->probes, 3U);
  EXPECT_NEAR(noise->spread, 0.01, 1e-3);
  EXPECT_THAT(noise_warning(*noise), IsEmpty());
  EXPECT_FALSE(noise_of({}));
}

TEST(Noise, EventsBetweenTwoCallsDoNotCount) {
  NoiseLine resumed = line(1);  // continues the first line, with larger counters
  for (Json* counters : {&resumed.before, &resumed.after}) (*counters)["throttled"] = 900;
  EXPECT_EQ(noise_of({line(0), line(1), resumed})->throttled, 0);
  resumed.after["throttled"] = 903;
  EXPECT_EQ(noise_of({line(0), line(1), resumed})->throttled, 3);
}

TEST(NoiseLog, ATornLineIsClosedAndTheNextOneKept) {
  const TemporaryFolder folder;
  const auto file = folder / "noise.jsonl";
  write_file(file, R"({"round": 0, "lo)");
  NoiseLog(file, 0.01).look(1);
  std::istringstream lines(read_file(file));
  std::string torn, whole;
  std::getline(lines, torn);
  std::getline(lines, whole);
  EXPECT_EQ(torn, R"({"round": 0, "lo)");
  EXPECT_EQ(fields_of<NoiseLine>().read(Json::parse(whole), "test").round, 1);
}

TEST(PeakLog, KeepsTheBestOfEachArithmetic) {
  const Json busy = {{"host", "h"},
                     {"peak",
                      {{"dtype_flops", {{"fp32", 5.0}, {"bf16", 3.0}}},
                       {"source", "measured"},
                       {"mfu_dtype", "fp32"},
                       {"mfu_denominator", 5.0}}}};
  Json quiet = busy;
  quiet["peak"]["dtype_flops"] = {{"fp32", 4.0}, {"bf16", 9.0}};
  quiet["peak"]["mfu_dtype"] = "bf16";
  quiet["peak"]["mfu_denominator"] = 9.0;
  const Json best = with_best_peaks(busy, quiet);
  EXPECT_EQ(best.at("peak").at("dtype_flops"), Json({{"fp32", 5.0}, {"bf16", 9.0}}));
  EXPECT_EQ(best.at("peak").at("mfu_denominator"), 9.0);
  EXPECT_EQ(best.at("peak").at("mfu_dtype"), "bf16");
  EXPECT_EQ(with_best_peaks(best, busy), best) << "a lower peak changes nothing";
  EXPECT_EQ(with_best_peaks(busy, {{"doctor", "it crashed"}}), busy);
  Json table = busy;
  table["peak"]["source"] = "table";
  EXPECT_EQ(with_best_peaks(table, quiet).at("peak").at("mfu_denominator"), 5.0)
      << "the manufacturer's figure";
}

TEST(Noise, WarningsNameTheProblemAndTheRemedy) {
  EXPECT_THAT(
      noise_warning(*noise_of({line(0, 0.5), line(1, 0.5)})),
      ::testing::AllOf(HasSubstr("identical work varied by 50 % in time"), HasSubstr("To improve it: ")));
  EXPECT_THAT(noise_warning(*noise_of({line(0), line(1, 0.01, 1.3)})), HasSubstr("varied by 30 %"));
  EXPECT_THAT(noise_warning(*noise_of({line(0), line(1, 0.01, 1, {{"steal_ticks", 15}})})),
              HasSubstr("the hypervisor gave 5.0 %"));
  EXPECT_THAT(noise_warning(*noise_of({line(0, 0.01, 1, {{"cpu_waiting_us", 250000}})})), HasSubstr("50 %"));
  EXPECT_THAT(noise_warning(*noise_of({line(0), line(1, 0.01, 1, {{"throttled", 3}})})),
              HasSubstr("3 times because of heat"));
}

std::vector<NoiseLine> probes(int all, int slow) {
  std::vector<NoiseLine> lines;
  for (int i = 0; i < all; ++i) lines.push_back(line(i, 0.01, i >= all - slow ? 2.1 : 1));
  return lines;
}

TEST(Noise, AFewSlowProbesAreCountedAndNoWarning) {
  const Noise one = *noise_of(probes(41, 1));
  EXPECT_THAT(noise_warning(one), IsEmpty());
  EXPECT_EQ(slow_probes(one), "1 of 41 probes was slow, with 2.10 times the usual time");
  EXPECT_THAT(noise_warning(*noise_of(probes(19, 1))), IsEmpty());
  const std::string three = noise_warning(*noise_of(probes(14, 3)));
  EXPECT_THAT(three, HasSubstr("varied by 110 % (10th to 90th percentile); 3 of 14 probes were slow"));
  EXPECT_THAT(three, ::testing::Not(HasSubstr("run more rounds"))) << "more probes do not make it smaller";
  Analysis a;
  a.noise = one;
  EXPECT_EQ(noise_section(a).lead,
            "The machine was mostly quiet: 1 of 41 probes was slow, with 2.10 times the usual time.");
}

TEST(Noise, RunningTasksAreTheUsualNumber) {
  std::vector<NoiseLine> lines = probes(5, 0);
  lines[2].before["running"] = 9;
  EXPECT_EQ(noise_of(lines)->running, 0);
}

TEST(Noise, TheSectionHasARowForEachFigure) {
  const Json all = {{"governor", "powersave"}, {"mhz", 3100}, {"huge_pages", "madvise"}, {"quota_cpus", 2.5}};
  Analysis a;
  a.noise = noise_of({line(0, 0.01, 1, all), line(1, 0.01, 1, all)});
  const Section section = noise_section(a);
  ASSERT_TRUE(section.table);
  const auto value_of = [&](const std::string& figure) {
    for (const auto& row : section.table->rows)
      if (row.front() == figure) return row.at(1);
    return std::string();
  };
  EXPECT_EQ(value_of("probes"), "2");
  EXPECT_EQ(value_of("limit of CPU time"), "2.50 CPUs");
  EXPECT_EQ(value_of("frequency governor"), "powersave");
  EXPECT_EQ(value_of("clock of the fastest core"), "3100 MHz");
}

/// A run with these times of timed steps, after a slow warm-up step.
StoredRun stored_run(const std::vector<double>& seconds, bool on_gpu) {
  StoredRun run;
  run.result.device = on_gpu ? "NVIDIA H100" : "EPYC";
  run.result.on_gpu = on_gpu;
  run.result.steps.push_back({.step = 0, .timed = false, .tokens = 64, .positions = 64, .seconds = 9});
  for (const double one : seconds)
    run.result.steps.push_back(
        {.step = std::ssize(run.result.steps), .timed = true, .tokens = 64, .positions = 64, .seconds = one});
  return run;
}
const std::vector<double> kSteady = {1.00, 1.01, 1.02, 1.03, 1.04}, kUnsteady = {1.0, 1.1, 1.2, 1.4, 1.5};

TEST(GpuSteps, SpreadIsTheMedianOverTheRuns) {
  const auto gpu =
      gpu_steps_of({stored_run(kSteady, true), stored_run(kUnsteady, true), stored_run(kUnsteady, true)});
  ASSERT_TRUE(gpu);
  EXPECT_EQ(gpu->runs, 3U);
  EXPECT_NEAR(gpu->spread.value(), (1.4 - 1.0) / 1.2, 1e-12) << "the 10 % and 90 % quantiles of five";
  EXPECT_THAT(gpu_warning(*gpu), HasSubstr("equal steps of a run varied by 33 % in time"));
  EXPECT_THAT(gpu_warning(*gpu_steps_of({stored_run(kSteady, true)})), IsEmpty());
}

TEST(GpuSteps, RunsOnACpuHaveNone) {
  EXPECT_FALSE(gpu_steps_of({stored_run(kSteady, false)}));
  EXPECT_FALSE(gpu_steps_of({stored_run(kSteady, true), stored_run(kSteady, false)}));
  StoredRun unnamed = stored_run(kSteady, false);
  unnamed.result.device.clear();
  EXPECT_FALSE(gpu_steps_of({unnamed}));
  EXPECT_TRUE(gpu_steps_of({unnamed, stored_run(kSteady, true)}))
      << "an external program need not name its device";
}

TEST(GpuSteps, StepsOfUnequalWorkDoNotCount) {
  StoredRun packed = stored_run(kUnsteady, true);
  packed.result.steps.back().tokens = 60;
  const auto gpu = gpu_steps_of({packed, stored_run({1, 2, 1, 2}, true)});
  ASSERT_TRUE(gpu);
  EXPECT_EQ(gpu->runs, 0U) << "one run has other work, the other has too few steps";
  EXPECT_FALSE(gpu->spread);
  EXPECT_THAT(gpu_warning(*gpu), IsEmpty());
}

TEST(GpuSteps, ShortTimedStepsAreAWarningWithTheNumberOfSteps) {
  StoredRun brief = stored_run({0.04, 0.04, 0.04}, true), shorter = stored_run({0.02, 0.02}, true);
  brief.result.step_seconds = 0.04;
  shorter.result.step_seconds = 0.02;
  const auto gpu = gpu_steps_of({stored_run(kSteady, true), brief, shorter});
  EXPECT_EQ(
      short_steps_warning(*gpu),
      "The timed steps of 2 runs took less than 3.00 s on the GPU, the shortest 40.0 ms. Clock and power "
      "of a GPU need that time to settle; set train.steps = 150.");
  EXPECT_THAT(short_steps_warning(*gpu_steps_of({stored_run(kSteady, true)})), IsEmpty());
}

/// A report of timed runs on a noisy CPU.
Analysis analysis_on_a_busy_cpu(const std::vector<StoredRun>& runs) {
  Analysis a;
  a.rows.emplace_back().tokens_per_second = 64;
  a.noise = noise_of({line(0, 0.5), line(1, 0.5)});
  a.gpu = gpu_steps_of(runs);
  return a;
}

TEST(GpuSteps, TheWarningJudgesTheDeviceThatDidTheWork) {
  EXPECT_THAT(warnings_of(analysis_on_a_busy_cpu({stored_run(kSteady, false)})),
              ::testing::ElementsAre(HasSubstr("The machine was not quiet: identical work varied by 50 %")));
  EXPECT_THAT(warnings_of(analysis_on_a_busy_cpu({stored_run(kSteady, true)})), IsEmpty());
  EXPECT_THAT(warnings_of(analysis_on_a_busy_cpu({stored_run(kUnsteady, true)})),
              ::testing::ElementsAre(HasSubstr("The GPU was not steady")));
  Analysis drifted = analysis_on_a_busy_cpu({stored_run(kSteady, true)});
  drifted.drift = Drift{100, 80};
  EXPECT_THAT(warnings_of(drifted), ::testing::ElementsAre(HasSubstr("The base was 20.0 % slower")));
}

TEST(GpuSteps, TheSectionIsAboutTheDeviceThatDidTheWork) {
  const Section section = noise_section(analysis_on_a_busy_cpu({stored_run(kSteady, true)}));
  EXPECT_FALSE(section.table);
  EXPECT_THAT(section.bullets,
              ::testing::ElementsAre(
                  HasSubstr("On the GPU, equal steps of a run varied by 2.9 % in time (median of 1 run")));
  EXPECT_EQ(noise_section(analysis_on_a_busy_cpu({stored_run(kSteady, false)})).lead,
            "The machine was not quiet.");
}

TEST(Noise, LinesRoundTrip) {
  const NoiseLine written = line(4, 0.2);
  const NoiseLine read = fields_of<NoiseLine>().read(Json::parse(to_json(written).dump()), "");
  EXPECT_EQ(to_json(read), to_json(written));
}

TEST(Counters, AllAreReadIfPresent) {
  const TemporaryFolder root;
  const auto put = [&](const std::string& file, const std::string& text) {
    std::filesystem::create_directories((root / file).parent_path());
    write_file(root / file, text);
  };
  put("proc/stat", "cpu  10 20 30 40 50 60 70 80 5 6\ncpu0 1 2\n");
  put("proc/loadavg", "1.50 0.30 0.10 3/200 1234\n");
  put("proc/pressure/cpu", "some avg10=0.00 avg60=0.00 avg300=0.00 total=4242\nfull avg10=0.00 total=1\n");
  put("proc/self/cgroup", "0::/user/me\n");
  put("sys/fs/cgroup/user/me/cpu.stat", "usage_usec 9\nnr_throttled 2\nthrottled_usec 77\n");
  put("sys/fs/cgroup/user/me/cpu.max", "150000 100000\n");
  for (const char* cpu : {"cpu0", "cpu1"}) {
    const std::string folder = std::string("sys/devices/system/cpu/") + cpu;
    put(folder + "/thermal_throttle/core_throttle_count", "2\n");
    put(folder + "/cpufreq/scaling_cur_freq", cpu == std::string("cpu1") ? "3100000\n" : "1200000\n");
    put(folder + "/cpufreq/scaling_governor", "powersave\n");
  }
  put("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
  Json counters = read_machine_counters(root.path());
  EXPECT_GT(counters["clock_us"], 0);
  counters.erase("clock_us");
  const Json expected = {
      {"cpu_ticks", 360},        {"steal_ticks", 80},        {"load", 1.5},      {"running", 3},
      {"cpu_waiting_us", 4242},  {"throttled", 4},           {"mhz", 3100},      {"governor", "powersave"},
      {"huge_pages", "madvise"}, {"quota_throttled_us", 77}, {"quota_cpus", 1.5}};
  EXPECT_EQ(counters.size(), expected.size());
  for (const auto& [name, value] : expected.items()) EXPECT_EQ(counters[name], value) << name;
}

TEST(Counters, MissingCountersAreNull) {
  const TemporaryFolder root;
  const Json counters = read_machine_counters(root.path());
  for (const auto& [name, value] : counters.items())
    EXPECT_TRUE(name == "clock_us" || value.is_null()) << name;
}

TEST(Probe, EveryCoreDoesOnePiece) {
  const NoiseProbe probe(3, 0.001);
  const auto pieces = probe.measure(0);
  EXPECT_EQ(pieces.size(), 3U);
  for (const double piece : pieces) EXPECT_GT(piece, 0);
}
}  // namespace
}  // namespace optrush
