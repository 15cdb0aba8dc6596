// Plans and runs have the same results, ends and messages in forks of a worker as in separate processes.
#include "launch/fork_server.h"

#include <gtest/gtest.h>

#include <thread>

#include "../support/folders.h"
#include "../support/opens.h"
#include "base/files.h"
#include "base/temporary_folder.h"
#include "spec/spec_json.h"

namespace optrush {
namespace {
namespace fs = std::filesystem;

/// Plans and trains the smallest possible model.
class ForkedWorkers : public ::testing::Test {
 protected:
  static RunSpec small_spec(const std::vector<std::string>& plugins = {}) {
    RunSpec spec;
    spec.model = {{"dim", 16}, {"n_layers", 1}, {"n_heads", 2}, {"n_kv_heads", 1}, {"ffn_dim", 16}};
    spec.train.micro_batch = 1;
    spec.train.seq_len = 8;
    spec.device = "cuda";  // its memory does not depend on the moment
    spec.threads = 1;
    spec.plugin_path = {testing::build_folder() + "/plugins", testing::build_folder() + "/tests/plugins"};
    for (const auto& plugin : plugins) spec.plugins.push_back({.name = plugin});
    return spec;
  }

  struct Answer {
    ProcessEnd end;
    std::string plan, log;
  };
  template <typename Run>
  Answer answer(const RunSpec& spec, const Run& run) {
    fs::remove(folder_ / "plan.json");
    write_json(folder_ / "spec.json", to_json(spec));
    Answer answer{run(Command{{worker_, "plan", "--spec", folder_ / "spec.json", "--out",
                               folder_ / "plan.json", "--sm", "sm_90"},
                              worker_environment(spec),
                              folder_ / "log.txt"}),
                  "", read_file(folder_ / "log.txt")};
    if (fs::exists(folder_ / "plan.json")) answer.plan = read_file(folder_ / "plan.json");
    return answer;
  }
  Answer forked(const RunSpec& spec, const Limits& limits = {}) {
    return answer(spec, [&](const Command& command) { return workers_.run(command, limits, interrupts_); });
  }
  Answer started(const RunSpec& spec, const Limits& limits = {}) {
    return answer(spec, [&](const Command& command) { return run_process(command, limits, interrupts_); });
  }
  /// The command of a run that trains on the CPU with these plugins.
  Command run_of(const std::string& folder, const std::vector<std::string>& plugins) const {
    RunSpec spec = small_spec(plugins);
    spec.device = "cpu";
    spec.train.steps = 4;
    fs::create_directories(folder_ / folder);
    write_json(folder_ / folder / "spec.json", to_json(spec));
    return {{worker_, "run", "--spec", folder_ / folder / "spec.json", "--out", folder_ / folder},
            worker_environment(spec),
            folder_ / folder / "log.txt"};
  }
  Json result(const std::string& folder) const { return read_json(folder_ / folder / "result.json"); }
  static std::vector<double> losses(const Json& result) {
    std::vector<double> all;
    for (const auto& step : result.at("steps")) all.push_back(step.at("loss"));
    return all;
  }

  void expect_the_same(const RunSpec& spec) {
    const Answer fork = forked(spec), start = started(spec);
    EXPECT_EQ(fork.end.kind, start.end.kind);
    EXPECT_EQ(fork.end.code, start.end.code);
    EXPECT_EQ(fork.plan, start.plan);
    EXPECT_EQ(fork.log, start.log);
  }

  const TemporaryFolder folder_;
  const std::string worker_ = testing::build_folder() + "/bin/optrush-worker";
  ForkServer workers_{worker_}, runs_{worker_, ForkServer::Use::runs};
  Interrupts interrupts_;
};

TEST_F(ForkedWorkers, PlansAreByteEqual) {
  for (const auto& plugins : std::vector<std::vector<std::string>>{
           {}, {"flash_attention", "fused_adamw"}, {"lora", "mixed_precision"}, {}}) {
    const RunSpec spec = small_spec(plugins);
    expect_the_same(spec);
    EXPECT_TRUE(Json::parse(forked(spec).plan).at("memory").is_object());
  }
}

TEST_F(ForkedWorkers, FailedPlansHaveTheSameMessage) {
  for (const char* plugin : {"throws", "skips", "missing_symbol", "absent", "segfault"}) {
    SCOPED_TRACE(plugin);
    expect_the_same(small_spec({plugin}));
  }
  RunSpec odd = small_spec();
  odd.model["dim"] = 17;
  expect_the_same(odd);
}

TEST_F(ForkedWorkers, LibrariesAreLoadedOnce) {
  // Other tests load the libraries of the build folder, so this test watches copies.
  const fs::path build = testing::build_folder(), copy = folder_.path() / "copy";
  for (const char* file : {"bin/optrush-worker", "lib/liboptrush.so"}) {
    fs::create_directories((copy / file).parent_path());
    fs::copy_file(build / file, copy / file);
  }
  testing::Opens libraries(copy / "lib");
  ForkServer workers(copy / "bin/optrush-worker");
  const auto forked = [&](const RunSpec& spec, const Limits& limits = {}) {
    return answer(spec, [&](const Command& command) { return workers.run(command, limits, interrupts_); });
  };
  forked(small_spec());
  EXPECT_EQ(libraries.of("liboptrush.so"), 1);
  for (const char* plugin : {"hang", "segfault", "lora"}) forked(small_spec({plugin}), {.timeout_s = 2});
  EXPECT_EQ(libraries.of("liboptrush.so"), 1);
  RunSpec other = small_spec();
  other.environment = {{"OF_RUNG", "1"}};
  forked(other);
  EXPECT_EQ(libraries.of("liboptrush.so"), 2);
}

TEST_F(ForkedWorkers, TrainingGivesTheSameLosses) {
  for (const auto& plugins : std::vector<std::vector<std::string>>{
           {}, {"mixed_precision", "flash_attention", "fused_kernels", "fused_adamw"}}) {
    SCOPED_TRACE(plugins.size());
    const std::string number = std::to_string(plugins.size());
    EXPECT_EQ(runs_.run(run_of("forked" + number, plugins), {}, interrupts_).code, 0);
    EXPECT_EQ(run_process(run_of("started" + number, plugins), {}, interrupts_).code, 0);
    const Json forked = result("forked" + number), started = result("started" + number);
    EXPECT_EQ(losses(forked).size(), 7U);
    EXPECT_EQ(losses(forked), losses(started));
    EXPECT_EQ(forked.at("memory").at("peak_allocated"), started.at("memory").at("peak_allocated"));
    const double process = started.at("memory").at("process");
    EXPECT_NEAR(forked.at("memory").at("process"), process, 0.1 * process)
        << "the process's memory includes its libraries";
  }
}

TEST_F(ForkedWorkers, FailedRunsHaveTheSameMessage) {
  for (const char* plugin : {"throws", "segfault", "absent"}) {
    SCOPED_TRACE(plugin);
    const std::string name = plugin;
    const ProcessEnd forked = runs_.run(run_of("forked", {name}), {}, interrupts_);
    const ProcessEnd started = run_process(run_of("started", {name}), {}, interrupts_);
    EXPECT_EQ(forked.kind, started.kind);
    EXPECT_EQ(forked.code, started.code);
    EXPECT_EQ(read_file(folder_ / "forked/log.txt"), read_file(folder_ / "started/log.txt"));
  }
}

TEST_F(ForkedWorkers, ShowTheirCommandLines) {
  const Command command = run_of("run", {"hang"});
  const auto process = runs_.start(command, interrupts_);
  std::string words, shown;
  for (const auto& argument : command.arguments) words += argument + '\0';
  for (int i = 0; i < 1000 && !shown.starts_with(words); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    shown = read_file("/proc/" + std::to_string(process->pid()) + "/cmdline");
  }
  EXPECT_EQ(shown.substr(0, words.size()), words);
  EXPECT_EQ(shown.find_first_not_of('\0', words.size()), std::string::npos);
}
}  // namespace
}  // namespace optrush
