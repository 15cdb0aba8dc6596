// The cost of `optrush run` without its workers: an experiment of RUNGS rungs and ROUNDS rounds. This program
// answers its runs at once, with made-up results.
//
//   build/bench/many_runs RUNGS ROUNDS [FOLDER] [--resume]
// It prints the controller's CPU milliseconds per run, without the workers' time, and its largest resident
// memory. With --resume nothing is left to run. It then prints the cost of checking every stored run.
#include <sys/resource.h>

#include <chrono>
#include <iostream>
#include <map>

#include "base/files.h"
#include "base/temporary_folder.h"
#include "experiment/experiment.h"
#include "launch/controller.h"
#include "launch/progress.h"
#include "process/terminal.h"
#include "spec/spec_json.h"

namespace {
using namespace optrush;
namespace fs = std::filesystem;

Json result_of(const Json& spec) {
  const Json& train = spec.at("train");
  Json steps = Json::array();
  const auto warmup = train.at("warmup").get<int64_t>(), all = warmup + train.at("steps").get<int64_t>();
  for (int64_t i = 0; i < all; ++i)
    steps.push_back({{"step", i},
                     {"timed", i >= warmup},
                     {"loss", 5 - 0.1 * static_cast<double>(i)},
                     {"grad_norm", 1.0},
                     {"tokens", 128},
                     {"seconds", 0.01},
                     {"phases", {{"forward", 0.004}, {"backward", 0.005}, {"optimizer", 0.001}}}});
  return {{"schema_version", 1},
          {"status", "ok"},
          {"reason", ""},
          {"steps", std::move(steps)},
          {"tokens_per_second", 12800.0 + 10 * spec.at("round").get<double>()},
          {"step_seconds", 0.01},
          {"device", {{"type", "cpu"}, {"name", "none"}}},
          {"plugins", Json::array()}};
}

Json plan_of(const Json& spec) {
  Json problem = spec.at("train");
  problem["global_batch"] =
      problem.at("micro_batch").get<int64_t>() * problem.at("accumulation").get<int64_t>();
  return {{"schema_version", 1},      {"problem", problem},     {"model", spec.at("model")},
          {"plugins", Json::array()}, {"slots", Json::array()}, {"notes", Json::array()}};
}

/// Answers like optrush-worker: "plan", "run" and "doctor", then options by pairs.
int work(const std::string& what, const std::map<std::string, std::string>& options) {
  if (what == "doctor")
    write_json(options.at("--json"), {{"cpu", {{"name", "none"}}}, {"gpus", Json::array()}, {"threads", 1}});
  if (what == "plan") write_json(options.at("--out"), plan_of(read_json(options.at("--spec"))));
  if (what == "run")
    write_json(fs::path(options.at("--out")) / "result.json", result_of(read_json(options.at("--spec"))));
  return 0;
}

Experiment experiment_of(int64_t rungs, int64_t rounds) {
  Experiment e;
  e.name = "many";
  e.rounds = rounds;
  e.interleave = Interleave::off;
  e.base = merged(RunSpec{}, {{"train", {{"steps", 10}, {"warmup", 3}}}}, "bench");
  Part ladder;
  for (int64_t i = 1; i <= rungs; ++i)
    ladder.rungs.push_back({.name = "rung " + std::to_string(i), .where = "bench:1"});
  e.parts.push_back(ladder);
  return e;
}

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

int conduct(int64_t rungs, int64_t rounds, const fs::path& reports, bool resume) {
  const auto start = std::chrono::steady_clock::now();
  const double before = cpu_seconds();
  Progress progress(Terminal{.fd = -1});
  const Expanded expanded(experiment_of(rungs, rounds));
  const RunRequest request{
      .worker = fs::read_symlink("/proc/self/exe"), .reports = reports, .resume = resume, .probe_s = 0};
  const RunOutcome outcome = run_experiment(expanded, request, progress);
  const auto stored =
      std::distance(fs::directory_iterator(outcome.folder / "runs"), fs::directory_iterator());
  const auto runs = static_cast<double>(stored);
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - start;
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  std::cout << stored << " runs, " << 1e3 * (cpu_seconds() - before) / runs
            << " ms of CPU of the conductor a run, " << 1e3 * wall.count() / runs << " ms of time a run, "
            << usage.ru_maxrss / 1024 << " MiB\n";
  return outcome.all_ok ? 0 : 1;
}
}  // namespace

int main(int argc, char** argv) try {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.size() < 2) throw std::runtime_error("usage: many_runs RUNGS ROUNDS [FOLDER] [--resume]");
  if (arguments[0] == "plan" || arguments[0] == "run" || arguments[0] == "doctor") {
    std::map<std::string, std::string> options;
    for (size_t i = 1; i + 1 < arguments.size(); i += 2) options[arguments[i]] = arguments[i + 1];
    return work(arguments[0], options);
  }
  const TemporaryFolder scratch;
  const fs::path folder =
      arguments.size() > 2 && arguments[2] != "--resume" ? fs::path(arguments[2]) : scratch.path();
  return conduct(std::stoll(arguments[0]), std::stoll(arguments[1]), folder, arguments.back() == "--resume");
} catch (const std::exception& e) {
  std::cerr << e.what() << "\n";
  return 2;
}
