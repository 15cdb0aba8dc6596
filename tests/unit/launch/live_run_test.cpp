// The status of a run when a signal, its own end and its time limit come in any order.
#include "launch/run/live_run.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include "fixture.h"

namespace optrush {
namespace {
namespace fs = std::filesystem;
using std::chrono::milliseconds;
using ::testing::HasSubstr;

class LiveRunTest : public ::testing::Test {
 protected:
  /// Runs a shell script. "$OUT" is the run's folder, and GOOD writes a good result there.
  std::optional<RunResult> run(const std::string& script, std::optional<milliseconds> signal_after = {},
                               int signal = SIGTERM, bool external = false) {
    fs::remove_all(folder_ / "run");
    fs::create_directories(folder_ / "run");
    Job job{.id = "run", .spec = {}};
    if (external) job.external = External{.command = {"sh"}};
    if (saves_) job.spec.save.every = 1;
    const Interrupts held;  // keeps the signal pending
    std::jthread sender;
    if (signal_after)
      sender = std::jthread([=] {
        std::this_thread::sleep_for(*signal_after);
        kill(getpid(), signal);
      });
    Interrupts interrupts;
    const std::string good =
        R"(printf '{"schema_version":1,"status":"ok","reason":"","tokens_per_second":1}' )"
        R"(> "$OUT/result.json")";
    const Command command{{"sh", "-c", "GOOD() { " + good + "; }; " + script},
                          {{"OUT", (folder_ / "run").string()}},
                          folder_ / "run" / "log.txt"};
    ProcessRun live(std::make_unique<Process>(command), job, folder_ / "run", interrupts);
    const auto result = finish(live, timeout_s_, interrupts);
    if (sender.joinable()) sender.join();
    interrupts.poll();
    heard_ = interrupts.signal();
    return result;
  }
  static std::string status(const std::optional<RunResult>& result) {
    return result ? std::string(to_string(result->status)) : "none";
  }

  const TemporaryFolder folder_;
  double timeout_s_ = 20;
  bool saves_ = false;
  int heard_ = 0;
};

TEST_F(LiveRunTest, EndWithoutASignalIsKept) {
  EXPECT_EQ(status(run("GOOD")), "ok");
  EXPECT_EQ(status(run("exit 3")), "crashed");
  const auto result = run("kill -TERM $$");
  EXPECT_EQ(status(result), "crashed") << "only the worker got the signal";
  EXPECT_EQ(result->cause, Cause::lost);
  EXPECT_THAT(result->reason, HasSubstr("ended by SIGTERM"));
}

/// A launcher sends a signal to every process of a job, so the worker may end before the controller gets the
/// signal.
TEST_F(LiveRunTest, BadEndNearASignalCountsAsInterrupted) {
  for (const char* end : {"kill -TERM $$", "kill -KILL $$", "kill -USR1 $$", "exit 143", "exit 130"})
    for (const int after : {0, 100, 700}) {
      EXPECT_EQ(status(run(end, milliseconds(after))), "none") << end << ", after " << after;
      EXPECT_EQ(heard_, SIGTERM);
    }
  EXPECT_EQ(status(run("sleep 0.3; exit 3", milliseconds(0))), "none")
      << "the cause of the failure is unknown";
  EXPECT_EQ(status(run("exit 1", milliseconds(100))), "none") << "as a program that handles the signal";
  EXPECT_EQ(status(run("sleep 1000", milliseconds(0), SIGUSR1)), "none");
  EXPECT_EQ(heard_, SIGUSR1);
}

TEST_F(LiveRunTest, GoodEndWithinTheGracePeriodIsKept) {
  EXPECT_EQ(status(run("trap '' TERM; sleep 2; GOOD", milliseconds(800))), "ok")
      << "it ends within the grace period";
  EXPECT_EQ(status(run("GOOD; kill -TERM $$", milliseconds(100))), "none")
      << "a signal ended the run after the good result";
}

TEST_F(LiveRunTest, ProgramThatStopsOnRequestIsNotFinished) {
  const std::string obeys = "trap 'GOOD; exit 0' TERM; while :; do sleep 0.02; done";
  EXPECT_EQ(status(run(obeys, milliseconds(300), SIGTERM, true)), "none");
  EXPECT_EQ(status(run("GOOD", milliseconds(2000), SIGTERM, true)), "ok");
}

TEST_F(LiveRunTest, SignalTakesPrecedenceOverTheTimeLimit) {
  timeout_s_ = 0.5;
  EXPECT_EQ(status(run("sleep 1000")), "timeout");
  EXPECT_EQ(status(run("sleep 1000", milliseconds(0))), "none");
  EXPECT_EQ(status(run("sleep 1000", milliseconds(1500))), "timeout") << "its time limit came first";
}

TEST_F(LiveRunTest, RunThatSavesGetsTimeToFinish) {
  const std::string saves = "trap 'sleep 6; echo saved; exit 143' TERM; while :; do sleep 0.02; done";
  saves_ = true;
  EXPECT_EQ(status(run(saves, milliseconds(300))), "none");
  EXPECT_THAT(read_file(folder_ / "run" / "log.txt"), HasSubstr("saved\n"))
      << "longer than the 5 s of another run";
  setenv("OPTRUSH_SAVE_TIMEOUT", "0.2", 1);
  EXPECT_EQ(status(run(saves, milliseconds(300))), "none");
  unsetenv("OPTRUSH_SAVE_TIMEOUT");
  EXPECT_THAT(read_file(folder_ / "run" / "log.txt"), ::testing::Not(HasSubstr("saved")));
}

TEST_F(LiveRunTest, RepeatedSignalsOfALauncherCountOnce) {
  Interrupts interrupts;
  raise(SIGTERM);
  EXPECT_TRUE(interrupts.wait(milliseconds(0)));
  raise(SIGTERM);
  EXPECT_FALSE(interrupts.wait(milliseconds(0))) << "the same signal again";
  std::this_thread::sleep_for(milliseconds(2100));
  raise(SIGINT);
  EXPECT_TRUE(interrupts.wait(milliseconds(0))) << "a second signal after the pause";
  EXPECT_EQ(interrupts.signal(), SIGTERM) << "the first signal is kept";
}

TEST_F(LiveRunTest, SignalToAnotherProcessNamesThatProcess) {
  Interrupts interrupts;
  interrupts.forward(SIGTERM, "rank 1 (host h)");
  EXPECT_EQ(interrupts.signal(), SIGTERM);
  EXPECT_EQ(interrupts.describe(), "SIGTERM (terminated), which rank 1 (host h) was sent");
}
}  // namespace
}  // namespace optrush
