#include "process/process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "../../support/error_of.h"
#include "base/files.h"
#include "base/temporary_folder.h"
#include "ends.h"
#include "launch/live_tracker.h"
#include "process/orphans.h"

namespace optrush {
namespace {
namespace fs = std::filesystem;
using Kind = ProcessEnd::Kind;
using testing::ends;
using testing::error_of;
using ::testing::HasSubstr;

class ProcessTest : public ::testing::Test {
 protected:
  Command shell(const std::string& script) const { return {{"sh", "-c", script}, {}, log_}; }
  std::string log() const { return read_file(log_); }
  /// Waits until the child has written a number to a file.
  static pid_t number_in(const fs::path& file) {
    for (pid_t number = 0;; usleep(1000))
      if (std::ifstream(file) >> number) return number;
  }
  const TemporaryFolder folder_;
  const fs::path log_ = folder_ / "log.txt", number_ = folder_ / "number";
  Interrupts interrupts_;
};

TEST_F(ProcessTest, ExitCodeAndOutput) {
  const auto end = run_process(shell("echo out; echo err >&2; exit 7"), {}, interrupts_);
  EXPECT_EQ(end.kind, Kind::exited);
  EXPECT_EQ(end.code, 7);
  EXPECT_EQ(log(), "out\nerr\n");
}

TEST_F(ProcessTest, LogStartsEmpty) {
  write_file(log_, "of an earlier run");
  run_process(shell("echo new"), {}, interrupts_);
  EXPECT_EQ(log(), "new\n");
}

TEST_F(ProcessTest, LongLogKeepsItsBeginningAndItsEnd) {
  BoundedLog bounded(log_, 4096);
  const auto say = [&](int from, int to) {
    std::ofstream out(log_, std::ios::app);
    for (int i = from; i < to; ++i) out << "line " << 10000 + i << "\n";
  };
  say(0, 340);
  bounded.bound();
  EXPECT_EQ(fs::file_size(log_), 340 * 11) << "it fits";
  say(340, 1000);
  bounded.bound();
  const std::string once = log();
  EXPECT_LE(once.size(), 2200);
  EXPECT_TRUE(once.starts_with("line 10000\nline 10001\n"));
  EXPECT_TRUE(once.ends_with("line 10998\nline 10999\n"));
  EXPECT_THAT(once, HasSubstr("\n[8954 bytes of this log are left out here]\n"));
  say(1000, 2000);
  bounded.bound();
  const std::string twice = log();
  EXPECT_TRUE(twice.starts_with("line 10000\n") && twice.ends_with("line 11999\n"));
  std::istringstream lines(twice);
  size_t kept = 0;
  for (std::string line; std::getline(lines, line);) kept += line.starts_with("line ") ? 11 : 0;
  EXPECT_THAT(twice, HasSubstr("[" + std::to_string(2000 * 11 - kept) + " bytes of this log"));
}

/// The cut removes a line from the first part that is longer than the marker.
TEST_F(ProcessTest, LogThatIsShortenedTwiceHasOneMarker) {
  BoundedLog bounded(log_, 4096);
  const std::string line = std::string(299, 'x') + "\n";
  for (int cut = 0; cut < 2; ++cut) {
    std::ofstream out(log_, std::ios::app);
    for (int i = 0; i < 100; ++i) out << line;
    out.close();
    bounded.bound();
  }
  std::string kept;
  for (int i = 0; i < 3; ++i) kept += line;
  EXPECT_EQ(log(), kept + "[58200 bytes of this log are left out here]\n" + kept);
}

TEST_F(ProcessTest, TheLogOfAProcessIsBoundedWhileItRuns) {
  // The last line comes after the cut: a line that is written within it may be lost.
  const std::string large = "test $(stat -c %s '" + log_.string() + "') -gt " + std::to_string(kLogLimit);
  const auto end = run_process(shell("echo first; yes 0123456789 | head -c 55000000; while " + large +
                                     "; do sleep 0.1; done; sleep 1; echo last"),
                               {}, interrupts_);
  EXPECT_EQ(end.code, 0);
  EXPECT_LE(fs::file_size(log_), static_cast<uintmax_t>(kLogLimit));
  EXPECT_TRUE(log().starts_with("first\n0123456789\n"));
  EXPECT_TRUE(log().ends_with("\nlast\n"));
}

TEST_F(ProcessTest, EnvironmentIsAddedToAndReplaced) {
  setenv("OPTRUSH_TEST_KEPT", "kept", 1);
  setenv("OPTRUSH_TEST_REPLACED", "old", 1);
  Command command = shell("echo $OPTRUSH_TEST_KEPT $OPTRUSH_TEST_REPLACED $OPTRUSH_TEST_ADDED");
  command.environment = {{"OPTRUSH_TEST_REPLACED", "new"}, {"OPTRUSH_TEST_ADDED", "a b"}};
  run_process(command, {}, interrupts_);
  EXPECT_EQ(log(), "kept new a b\n");
}

TEST_F(ProcessTest, LaterOfTwoValuesCounts) {
  Command command = shell("echo $OPTRUSH_TEST_TWICE");
  command.environment = {{"OPTRUSH_TEST_TWICE", "first"}, {"OPTRUSH_TEST_TWICE", "second"}};
  run_process(command, {}, interrupts_);
  EXPECT_EQ(log(), "second\n");
}

TEST_F(ProcessTest, NoTerminalInput) {
  const auto end = run_process(shell("read line && exit 1; exit 0"), {}, interrupts_);
  EXPECT_EQ(end.code, 0);
}

TEST_F(ProcessTest, SignalsAreNotInherited) {
  const auto end = run_process(shell("kill -INT $$; exit 0"), {}, interrupts_);
  EXPECT_EQ(end.kind, Kind::signalled);
  EXPECT_EQ(end.signal, SIGINT);
}

TEST_F(ProcessTest, DeathBySignal) {
  const auto end = run_process(shell("kill -SEGV $$"), {}, interrupts_);
  EXPECT_EQ(end.kind, Kind::signalled);
  EXPECT_EQ(describe_signal(end.signal), "SIGSEGV (segmentation fault)");
}

TEST_F(ProcessTest, ProgramThatCannotStartIsAnError) {
  EXPECT_THAT(error_of([&] {
                run_process({{folder_ / "none"}, {}, log_}, {}, interrupts_);
              }),
              HasSubstr("No such file or directory"));
  write_file(folder_ / "text", "no program");
  EXPECT_THAT(error_of([&] {
                run_process({{folder_ / "text"}, {}, log_}, {}, interrupts_);
              }),
              HasSubstr("Permission denied"));
}

TEST_F(ProcessTest, TimeoutEndsTheWholeGroup) {
  const fs::path file = folder_ / "grandchild";
  // Both the child and its own child ignore SIGTERM.
  const auto end = run_process(shell("trap '' TERM; sh -c 'trap \"\" TERM; echo $$ > " + file.string() +
                                     "; while :; do sleep 1; done' & wait; wait"),
                               {.timeout_s = 0.3, .grace_s = 0.1}, interrupts_);
  EXPECT_EQ(end.kind, Kind::timed_out);
  EXPECT_TRUE(ends(number_in(file)));
}

TEST_F(ProcessTest, ProgramThatHandlesSigtermIsNotKilled) {
  const auto end = run_process(shell("trap 'echo asked; exit 3' TERM; while :; do sleep 0.05; done"),
                               {.timeout_s = 0.5, .grace_s = 60}, interrupts_);
  EXPECT_EQ(end.kind, Kind::timed_out);
  EXPECT_THAT(log(), HasSubstr("asked\n"));
}

TEST_F(ProcessTest, GroupEndsWithItsLeader) {
  const fs::path file = folder_ / "grandchild";
  const auto end = run_process(shell("sh -c 'echo $$ > " + file.string() + "; sleep 1000' & while [ ! -s " +
                                     file.string() + " ]; do sleep 0.01; done; exit 0"),
                               {}, interrupts_);
  EXPECT_EQ(end.kind, Kind::exited);
  EXPECT_TRUE(ends(number_in(file)));
}

TEST_F(ProcessTest, InterruptIsReturnedAsAnEnd) {
  const auto end = run_process(shell("kill -INT $PPID; sleep 1000"), {}, interrupts_);
  EXPECT_EQ(end.kind, Kind::interrupted);
  EXPECT_EQ(interrupts_.signal(), SIGINT);
}

TEST_F(ProcessTest, ChildrenDieWithTheirParent) {
  const fs::path file = folder_ / "child";
  const pid_t parent = fork();
  if (parent == 0) {
    Interrupts interrupts;
    run_process({{"sh", "-c", "echo $$ > " + file.string() + "; exec sleep 1000"}, {}, {}}, {}, interrupts);
    _exit(0);
  }
  const pid_t child = number_in(file);
  kill(parent, SIGKILL);
  EXPECT_TRUE(ends(child));
  EXPECT_TRUE(ends(parent));
}
/// An orphan that left its process group and its session.
TEST_F(ProcessTest, AnOrphanOutsideItsGroupIsEndedAndNamed) {
  adopt_orphans();
  const auto end = run_process(shell(testing::leaves_a_sleep(number_)), {}, interrupts_);
  EXPECT_EQ(kill(number_in(number_), 0), -1);
  ASSERT_EQ(end.orphans.size(), 1U);
  EXPECT_THAT(end.orphans.front(), HasSubstr("sleep ("));
}

/// The orphans of a run end with the run. The tracker does not.
TEST_F(ProcessTest, OrphanOfARunIsEndedButALiveTrackerIsNot) {
  adopt_orphans();
  const fs::path python = folder_ / "python";
  write_file(python, "#!/bin/sh\nwhile ! test -e \"$5/end\"; do sleep 0.01; done\n");
  fs::permissions(python, fs::perms::owner_all);
  setenv("OPTRUSH_PYTHON", python.c_str(), 1);
  LiveTracker tracker("wandb", folder_.path(), "an experiment", interrupts_);
  unsetenv("OPTRUSH_PYTHON");
  const auto end = run_process(shell(testing::leaves_a_sleep(number_)), {}, interrupts_);
  EXPECT_EQ(kill(number_in(number_), 0), -1);
  ASSERT_EQ(end.orphans.size(), 1U);
  EXPECT_THAT(end.orphans.front(), HasSubstr("sleep ("));
  EXPECT_EQ(tracker.problem(), "");
}

TEST_F(ProcessTest, ExitCodeIsKnownIfTheParentIgnoresSigchld) {
  std::signal(SIGCHLD, SIG_IGN);
  Interrupts interrupts;
  EXPECT_EQ(run_process(shell("exit 3"), {.timeout_s = 20}, interrupts).code, 3);
}
}  // namespace
}  // namespace optrush
