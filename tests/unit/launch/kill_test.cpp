// A conductor that is killed at any moment, then resumed, makes the same runs as one that is not, each once.
#include <gmock/gmock.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <map>
#include <random>
#include <thread>

#include "fixture.h"

namespace optrush {
namespace {
class Kill : public testing::Launch {
 protected:
  std::map<std::string, int> finished_by_spec() const {
    std::map<std::string, int> count;
    std::istringstream lines(read_file(report() / "journal.jsonl"));
    for (std::string line; std::getline(lines, line);) {
      const Json entry = Json::parse(line, nullptr, false);
      if (entry.is_object() && entry.at("event") == "finished") ++count[entry.at("run")];
    }
    return count;
  }
  std::vector<std::string> done() const {
    std::vector<std::string> ids;
    for (const auto& run : load_report(report()).runs) ids.push_back(run.id);
    return ids;
  }
  /// Runs in a child that is killed after some time. Whether it came to its end before that.
  bool run_killed(const Experiment& e, std::chrono::microseconds after) {
    const pid_t child = fork();
    if (child == 0) {
      Progress progress(silent());
      run_experiment(e, resuming(), progress);
      _exit(0);
    }
    std::this_thread::sleep_for(after);
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status);
  }
};

TEST_F(Kill, ResumeMakesEveryRunOnce) {
  const auto e = experiment({"a", "crash", "b"}, 2);
  run(e);
  const auto expected = done();
  ASSERT_EQ(expected.size(), 9);
  std::filesystem::remove_all(report());
  std::filesystem::remove(starts_file_);

  std::mt19937 random(20260801);
  std::uniform_int_distribution<int> microseconds(1000, 400000);
  int kills = 0;
  while (!run_killed(e, std::chrono::microseconds(microseconds(random)))) {
    // What is there is whole at every moment: the report can be read, and runs that are done stay done.
    if (std::filesystem::exists(report() / "variants.json")) load_report(report());
    if (++kills == 40) break;
  }
  const auto before = std::filesystem::exists(report() / "runs") ? done() : std::vector<std::string>{};
  Progress progress(silent());
  run_experiment(e, resuming(), progress);
  EXPECT_GT(kills, 3) << "the kills came too late to show anything";
  EXPECT_EQ(done(), expected);
  for (const auto& [run, count] : finished_by_spec()) EXPECT_EQ(count, 1) << run;
  // A run that was done before a kill was not started again.
  for (const auto& id : before) EXPECT_THAT(expected, ::testing::Contains(id));
  std::map<std::string, int> starts_of;
  for (const auto& id : starts()) ++starts_of[id];
  EXPECT_LE(starts().size(), starts_of.size() + static_cast<size_t>(kills));
}
}  // namespace
}  // namespace optrush
