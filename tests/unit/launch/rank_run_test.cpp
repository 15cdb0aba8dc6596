// Runs of several processes with a fake worker: the result of each kind of failure.
#include <gmock/gmock.h>

#include <fstream>
#include <thread>

#include "ends.h"
#include "fixture.h"
#include "launch/ranks/ranks.h"
#include "machine/cores.h"
#include "machine/environment.h"

namespace optrush {
namespace {
namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class RankRun : public testing::Launch {
 protected:
  /// Gives every rung this number of ranks. The base keeps one.
  static Experiment with_ranks(int64_t ranks, const std::vector<std::string>& rungs, int64_t rounds = 1) {
    Experiment e = experiment(rungs, rounds);
    for (auto& rung : e.parts.at(0).rungs) rung.settings = {{"train", {{"world_size", ranks}}}};
    return e;
  }
  fs::path rank(const std::string& id, int64_t number) const {
    return report() / "runs" / id / "ranks" / std::to_string(number);
  }
  /// Processes whose log is in a run's folder: ranks and their children.
  std::vector<std::string> processes_of(const std::string& id) const {
    const std::string run = fs::canonical(report()) / "runs" / id / "";
    std::vector<std::string> found;
    std::error_code none;  // processes come and go
    for (fs::directory_iterator entry("/proc", none), end; !none && entry != end; entry.increment(none)) {
      const std::string log = fs::read_symlink(entry->path() / "fd/1", none).string();
      if (log.starts_with(run)) found.push_back(entry->path().filename());
    }
    return found;
  }
  void expect_all_ended(const std::string& id) const {
    for (int i = 0; i < 1000 && !processes_of(id).empty(); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_THAT(processes_of(id), ::testing::IsEmpty());
  }
  std::string host_ = " (host " + host_name() + "): ";
};

TEST_F(RankRun, RanksAreStartedWithTheirPlaces) {
  EXPECT_TRUE(run(with_ranks(2, {"good"})).all_ok);
  const Json result = this->result("01-good-r1");
  EXPECT_EQ(result.at("status"), "ok");
  EXPECT_EQ(result.at("steps").size(), 13) << "rank 0's result";
  std::string store;
  for (int64_t i = 0; i < 2; ++i) {
    const Json started = read_json(rank("01-good-r1", i) / "started.json");
    const Json& options = started.at("options");
    EXPECT_EQ(options.at("--rank"), std::to_string(i));
    EXPECT_EQ(options.at("--local-rank"), std::to_string(i));
    EXPECT_EQ(options.at("--local-size"), "2");
    EXPECT_THAT(options.at("--store").get<std::string>(), StartsWith("127.0.0.1:"));
    EXPECT_TRUE(store.empty() || options.at("--store") == store);
    store = options.at("--store");
    const int64_t cores = usable_cores();
    EXPECT_EQ(started.at("environment").at("OMP_NUM_THREADS"),
              std::to_string(share_of_cores(2, cores, cores)));
    EXPECT_EQ(started.at("environment").at("OMP_WAIT_POLICY"), "passive");
    EXPECT_TRUE(fs::exists(rank("01-good-r1", i) / "log.txt"));
  }
  EXPECT_FALSE(fs::exists(report() / "runs/00-base-r1/ranks")) << "a run of one rank has no folder `ranks`";
}

TEST_F(RankRun, ThreadsOfTheSpecApplyToEachRank) {
  auto e = with_ranks(2, {"good"});
  e.parts[0].rungs[0].settings["threads"] = 3;
  run(e);
  const Json started = read_json(rank("01-good-r1", 1) / "started.json");
  EXPECT_EQ(started.at("environment").at("OMP_NUM_THREADS"), "3");
  EXPECT_EQ(started.at("environment").at("MKL_NUM_THREADS"), "3");
}

TEST_F(RankRun, KilledRankIsNamedBeforeItsPeers) {
  EXPECT_FALSE(run(with_ranks(3, {"killed:2", "good"})).all_ok);
  EXPECT_EQ(status("01-killed-2-r1"), to_string(testing::killed_by_hand().status));
  EXPECT_EQ(result("01-killed-2-r1").at("rank"), 2);
  EXPECT_EQ(result("01-killed-2-r1").at("cause"), "lost");
  EXPECT_THAT(reason("01-killed-2-r1"), StartsWith("rank 2" + host_ + testing::killed_by_hand().reason));
  EXPECT_THAT(reason("01-killed-2-r1"), HasSubstr("after step 4 of 13"));
  EXPECT_THAT(reason("01-killed-2-r1"), HasSubstr("ranks/2/log.txt:\nthe last words"));
  const auto ends = read_json_lines(report() / "runs/01-killed-2-r1/rank_ends.jsonl");
  ASSERT_EQ(ends.size(), 3);
  EXPECT_EQ(ends[0].at("end"), "first");
  EXPECT_EQ(ends[0].at("rank"), 2);
  EXPECT_EQ(ends[0].at("step"), 4);
  EXPECT_EQ(reason("01-killed-2-r1").find(ends[0].at("reason").get<std::string>()), 0);
  for (const size_t i : {1, 2}) {
    EXPECT_EQ(ends[i].at("end"), "missed another rank");
    EXPECT_EQ(ends[i].at("reason"), "a connection was closed by another rank");
  }
  EXPECT_FALSE(fs::exists(report() / "runs/02-good-r1/rank_ends.jsonl"));
  expect_all_ended("01-killed-2-r1");
  EXPECT_EQ(status("02-good-r1"), "ok") << "the next rung runs";
}

TEST_F(RankRun, FailureThatIsReportedLateStillComesFirst) {
  run(with_ranks(3, {"oom:1"}));
  EXPECT_EQ(status("01-oom-1-r1"), "oom");
  EXPECT_EQ(result("01-oom-1-r1").at("requested_bytes"), 7);
  EXPECT_EQ(reason("01-oom-1-r1"),
            "rank 1" + host_ + "too large\nlast lines of ranks/1/log.txt:\nwhere it was");
}

TEST_F(RankRun, HungRankIsTheOneThatDidNotArrive) {
  const auto start = std::chrono::steady_clock::now();
  run(with_ranks(3, {"hang:1"}));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
  EXPECT_EQ(status("01-hang-1-r1"), "timeout");
  EXPECT_THAT(reason("01-hang-1-r1"), StartsWith("rank 1" + host_ + "did not reach"));
  EXPECT_THAT(reason("01-hang-1-r1"), HasSubstr("(last seen after step 4 of 13)"));
  EXPECT_THAT(reason("01-hang-1-r1"), HasSubstr("all_reduce of group dp"));
  EXPECT_EQ(result("01-hang-1-r1").at("cause"), "timeout");
  expect_all_ended("01-hang-1-r1");
}

TEST_F(RankRun, RankAbortedByTheNcclWatchdogWaitedForAnother) {
  run(with_ranks(3, {"watchdog:1"}));
  EXPECT_EQ(status("01-watchdog-1-r1"), "timeout");
  EXPECT_THAT(reason("01-watchdog-1-r1"), StartsWith("rank 1" + host_ + "did not reach"));
  EXPECT_THAT(reason("01-watchdog-1-r1"), HasSubstr("WorkNCCL(SeqNum=3, OpType=ALLREDUCE)"));
}

TEST_F(RankRun, LateRankIsNotAFailure) { EXPECT_TRUE(run(with_ranks(2, {"late:1"})).all_ok); }

TEST_F(RankRun, FailureAfterTheResultOfRank0ReplacesIt) {
  run(with_ranks(2, {"atlast:1"}));
  EXPECT_EQ(status("01-atlast-1-r1"), "crashed");
  EXPECT_THAT(reason("01-atlast-1-r1"), HasSubstr("exit code 3"));
}

TEST_F(RankRun, TimeLimitComesFromTheSpec) {
  auto e = with_ranks(2, {"slow"});
  e.parts[0].rungs[0].settings["timeout_s"] = 1;
  run(e);
  EXPECT_EQ(status("01-slow-r1"), "timeout");
  EXPECT_THAT(reason("01-slow-r1"), HasSubstr("did not end within 1.0 s"));
  expect_all_ended("01-slow-r1");
}

TEST_F(RankRun, MissingHardwareIsNotAFailure) {
  EXPECT_TRUE(run(with_ranks(2, {"skip"})).all_ok);
  EXPECT_EQ(status("01-skip-r1"), "skipped");
}

TEST_F(RankRun, ATakenPortIsChangedOnce) {
  EXPECT_TRUE(run(with_ranks(2, {"porttaken"})).all_ok);
  EXPECT_EQ(status("01-porttaken-r1"), "ok");
  EXPECT_EQ(std::ranges::count(starts(), "01-porttaken-r1/0"), 2);
}

TEST_F(RankRun, MoreRanksThanGpusAreSkipped) {
  auto e = with_ranks(2, {"good"});
  e.base.device = "cuda";
  EXPECT_TRUE(run(e).all_ok);
  EXPECT_EQ(status("01-good-r1"), "skipped");
  EXPECT_THAT(reason("01-good-r1"), HasSubstr("it needs 2 GPUs, one per rank, but this machine has 0"));
}

TEST_F(RankRun, PeersMayWaitForTheWholeCollectiveTimeout) {
  const auto lingers = [](const char* timeout) {
    setenv("OPTRUSH_COLLECTIVE_TIMEOUT", timeout, 1);
    const double seconds = limits_of({.id = "", .spec = {}}).linger_s;
    unsetenv("OPTRUSH_COLLECTIVE_TIMEOUT");
    return seconds;
  };
  EXPECT_EQ(lingers(""), 600);
  EXPECT_EQ(lingers("10"), 60);
  EXPECT_EQ(lingers("900"), 900);
}

TEST_F(RankRun, RequestedThreadsApplyToEachRank) {
  setenv("OMP_NUM_THREADS", "7", 1);
  run(with_ranks(2, {"good"}));
  unsetenv("OMP_NUM_THREADS");
  const Json started = read_json(rank("01-good-r1", 1) / "started.json");
  EXPECT_EQ(started.at("environment").at("OMP_NUM_THREADS"), "7");
  EXPECT_EQ(started.at("environment").at("MKL_NUM_THREADS"), "7");
}

TEST_F(RankRun, TheEnvironmentOfARungReachesItsRanks) {
  auto e = with_ranks(2, {"good"});
  e.parts[0].rungs[0].settings["env"] = {{"OMP_WAIT_POLICY", "active"}};
  run(e);
  for (int64_t i = 0; i < 2; ++i)
    EXPECT_EQ(read_json(rank("01-good-r1", i) / "started.json").at("environment").at("OMP_WAIT_POLICY"),
              "active");
}

TEST_F(RankRun, WorldSizesAreSweptInOneScript) {
  auto e = experiment({"1 rank", "2 ranks", "4 ranks"});
  for (int64_t i = 0; i < 3; ++i)
    e.parts[0].rungs[static_cast<size_t>(i)].settings = {{"train", {{"world_size", 1 << i}}}};
  EXPECT_TRUE(run(e).all_ok);
  EXPECT_FALSE(fs::exists(rank("01-1-rank-r1", 0)));
  EXPECT_TRUE(fs::exists(rank("03-4-ranks-r1", 3)));
}

TEST_F(RankRun, ResumeRestartsNoRank) {
  run(with_ranks(2, {"good", "killed:1"}));
  run(with_ranks(2, {"good", "killed:1"}), resuming());
  EXPECT_THAT(starts(), ::testing::IsEmpty());
}

TEST_F(RankRun, RunWithoutItsResultIsMissing) {
  run(with_ranks(4, {"good"}));
  fs::remove(report() / "runs/01-good-r1/result.json");
  auto e = with_ranks(4, {"good"});
  run(e, resuming());
  EXPECT_EQ(starts().size(), 4) << "results of the ranks do not count";
}

TEST_F(RankRun, NoRankOfAnEarlierRunIsLeft) {
  run(with_ranks(4, {"good"}));
  run(with_ranks(2, {"good"}));
  EXPECT_TRUE(fs::exists(rank("01-good-r1", 1)));
  EXPECT_FALSE(fs::exists(rank("01-good-r1", 2)));
}

TEST_F(RankRun, RanksDieWithTheController) {
  const pid_t controller = fork();
  if (controller == 0) {
    run(with_ranks(2, {"slow"}));
    _exit(0);
  }
  const auto both_have_started = [&] {
    return fs::exists(rank("01-slow-r1", 0) / "started.json") &&
           fs::exists(rank("01-slow-r1", 1) / "started.json");
  };
  for (int i = 0; i < 6000 && !both_have_started(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  const bool started = both_have_started(), seen = processes_of("01-slow-r1").size() >= 2;
  kill(controller, SIGKILL);
  ASSERT_TRUE(started && seen);
  EXPECT_TRUE(testing::ends(controller));
  expect_all_ended("01-slow-r1");
}

TEST_F(RankRun, AnInterruptEndsAllRanksAndKeepsNoResult) {
  std::thread interrupter;
  {
    sigset_t held;
    sigemptyset(&held);
    sigaddset(&held, SIGINT);
    pthread_sigmask(SIG_BLOCK, &held, nullptr);
    interrupter = std::thread([&] {
      while (starts().size() < 3) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      kill(getpid(), SIGINT);
    });
  }
  EXPECT_EQ(run(with_ranks(2, {"slow"})).signal, SIGINT);
  interrupter.join();
  EXPECT_FALSE(fs::exists(report() / "runs/01-slow-r1/result.json"));
}
}  // namespace
}  // namespace optrush
