// A controller that is killed at any moment and then resumed makes each run once, as without a kill.
#include <gmock/gmock.h>
#include <sys/wait.h>

#include <chrono>
#include <csignal>
#include <map>
#include <random>
#include <set>
#include <thread>

#include "fixture.h"

namespace optrush {
namespace {
class Kill : public testing::Launch {
 protected:
  // A killed controller leaves its temporary files. They are removed with this folder.
  Kill() { setenv("TMPDIR", folder_.path().c_str(), 1); }
  ~Kill() override { unsetenv("TMPDIR"); }

  std::map<std::string, int> finished() const {
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
  /// Runs in a child process that is killed after some time. Whether it ended before the kill.
  bool run_killed(const Experiment& e, std::chrono::microseconds after) {
    const pid_t child = fork();
    if (child == 0) {
      Progress progress(silent());
      run_experiment(Expanded(e), resuming(), progress);
      _exit(0);
    }
    std::this_thread::sleep_for(after);
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status);
  }
};

TEST_F(Kill, ResumeCompletesEveryRunOnce) {
  const auto e = experiment({"a", "crash", "b"}, 2);
  const auto start = std::chrono::steady_clock::now();
  run(e);
  const auto whole =
      std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - start);
  const auto expected = done();
  ASSERT_EQ(expected.size(), 9);
  std::filesystem::remove_all(report());
  std::filesystem::remove(starts_file_);

  std::mt19937 random(20260801);
  std::uniform_int_distribution<int64_t> moment(0, whole.count());
  size_t kills = 0;
  while (kills < 30 && !run_killed(e, std::chrono::microseconds(moment(random)))) {
    ++kills;
    // Throws if a file is incomplete.
    if (std::filesystem::exists(report() / "variants.json")) load_report(report());
  }
  Progress progress(silent());
  run_experiment(Expanded(e), resuming(), progress);
  EXPECT_GT(kills, 0U);
  EXPECT_EQ(done(), expected);
  for (const auto& [run, count] : finished()) EXPECT_EQ(count, 1) << run;
  // A kill cuts off at most one run. Finished runs are not started again.
  std::set<std::string> started;
  for (const auto& id : starts()) started.insert(id);
  EXPECT_LE(starts().size(), started.size() + kills);
}

TEST_F(Kill, InterleavedGroupIsCompleted) {
  auto e = experiment({"a", "b"}, 2);
  e.interleave = Interleave::on;
  setenv("FAKE_WORKER_TURNS", (folder_ / "turns").c_str(), 1);
  run(e);
  const auto expected = done();
  std::filesystem::remove_all(report());
  // Each kill is later than the last, so some kill cuts off a run of the second round.
  for (int i = 1; i < 6 && !run_killed(e, std::chrono::milliseconds(i * 700)); ++i) continue;
  Progress progress(silent());
  run_experiment(Expanded(e), resuming(), progress);
  unsetenv("FAKE_WORKER_TURNS");
  EXPECT_EQ(done(), expected);
  // A kill may come between a result and the name of its group, so a name may be missing. A round never has
  // two different names.
  std::map<int64_t, std::set<std::string>> groups;
  for (const auto& run : load_report(report()).runs) {
    EXPECT_EQ(run.result.status, Status::ok) << run.id;
    if (!run.result.turns.empty()) groups[run.spec.round].insert(run.result.turns);
  }
  EXPECT_EQ(groups.size(), 2);
  for (const auto& [round, names] : groups) EXPECT_EQ(names.size(), 1) << round;
}
}  // namespace
}  // namespace optrush
