// The kernel's counters distinguish an out-of-memory kill from other SIGKILLs.
#include "process/oom_kills.h"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <functional>

#include "fixture.h"
#include "launch/fork_server.h"
#include "process/process.h"

namespace optrush {
namespace {
namespace fs = std::filesystem;

class OomKillsTest : public ::testing::Test {
 protected:
  void write(const std::string& file, const std::string& text) {
    fs::create_directories((root_ / file).parent_path());
    write_file(root_ / file, text);
  }
  OomKills read() const { return OomKills::read(root_.path()); }
  std::optional<bool> after(const std::string& file, const std::string& text) {
    const OomKills before = read();
    write(file, text);
    return read().rose_since(before);
  }
  const TemporaryFolder root_;
};

TEST_F(OomKillsTest, NothingIsKnownWithoutCounters) {
  EXPECT_EQ(read().rose_since(read()), std::nullopt);
  write("proc/vmstat", "nr_free_pages 7\n");
  EXPECT_EQ(read().rose_since(read()), std::nullopt) << "an old kernel has no counter";
}

TEST_F(OomKillsTest, ReadsCgroupV2) {
  write("proc/self/cgroup", "0::/a/b\n");
  write("sys/fs/cgroup/a/b/memory.events", "low 0\nhigh 0\nmax 9\noom 2\noom_kill 2\n");
  EXPECT_EQ(read().rose_since(read()), false);
  EXPECT_EQ(after("sys/fs/cgroup/a/b/memory.events", "max 9\noom 3\noom_kill 3\noom_group_kill 0\n"), true);
  EXPECT_EQ(after("sys/fs/cgroup/a/memory.events", "oom_kill 30\n"), false) << "another program was killed";
  EXPECT_EQ(after("proc/vmstat", "oom_kill 12\n"), false) << "the cgroup's counter takes precedence";
}

TEST_F(OomKillsTest, ReadsCgroupV1) {
  write("proc/self/cgroup", "9:name=systemd:/x\n4:cpu,memory:/a\n0::/\n");
  write("sys/fs/cgroup/memory/a/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n");
  EXPECT_EQ(
      after("sys/fs/cgroup/memory/a/memory.oom_control", "oom_kill_disable 0\nunder_oom 1\noom_kill 1\n"),
      true);
  EXPECT_EQ(
      after("sys/fs/cgroup/memory/a/memory.oom_control", "oom_kill_disable 1\nunder_oom 1\noom_kill 1\n"),
      false)
      << "only oom_kill counts";
}

TEST_F(OomKillsTest, ReadsTheCgroupOfAJob) {
  for (const auto& [line, folder, file] :
       {std::tuple("0::/system.slice/slurm/job_7/step_0/task_1", "sys/fs/cgroup/", "memory.events"),
        std::tuple("3:memory:/slurm/uid_0/job_7/step_0/task_1", "sys/fs/cgroup/memory/",
                   "memory.oom_control")}) {
    const std::string path = std::string(line).substr(std::string(line).find('/') + 1);
    const std::string job = folder + path.substr(0, path.find("/step_0")) + "/" + file;
    write("proc/self/cgroup", std::string(line) + "\n");
    write(folder + path + "/" + file, "oom_kill 0\n");
    write(job, "oom_kill 0\n");
    EXPECT_EQ(read().rose_since(read()), false);
    EXPECT_EQ(after(job, "oom_kill 1\n"), true) << job;
  }
}

TEST_F(OomKillsTest, ReadsACgroupThatTheContainerShowsAsRoot) {
  write("proc/self/cgroup", "0::/docker/4711\n");
  write("sys/fs/cgroup/memory.events", "oom_kill 0\n");
  write("proc/vmstat", "oom_kill 5\n");
  EXPECT_EQ(after("proc/vmstat", "oom_kill 6\n"), false);
  EXPECT_EQ(after("sys/fs/cgroup/memory.events", "oom_kill 1\n"), true);
}

TEST_F(OomKillsTest, ReadsTheCounterOfTheMachineWithoutACgroup) {
  write("proc/vmstat", "nr_free_pages 7\noom_kill 5\nthp_split 1\n");
  EXPECT_EQ(read().rose_since(read()), false);
  EXPECT_EQ(after("proc/vmstat", "oom_kill 6\n"), true);
}

/// A real kill by the kernel, in a cgroup with little memory.
TEST(OomKills, KillByTheKernelIsRecognized) {
  fs::path group;
  for (const char* mount : {"/sys/fs/cgroup/memory", "/sys/fs/cgroup"}) {
    group = fs::path(mount) / ("optrush-test-" + std::to_string(getpid()));
    std::error_code refused;
    if (fs::create_directory(group, refused) && fs::exists(group / "cgroup.procs")) break;
    group.clear();
  }
  if (group.empty()) GTEST_SKIP() << "this user can't make a memory cgroup";
  const bool v1 = fs::exists(group / "memory.limit_in_bytes");
  std::ofstream(group / (v1 ? "memory.limit_in_bytes" : "memory.max")) << 64 * 1024 * 1024 << std::flush;
  const auto in_group = [&](const std::function<ProcessEnd(const TemporaryFolder&, Interrupts&)>& run) {
    const TemporaryFolder folder;
    const pid_t child = fork();
    if (child == 0) {
      const bool entered = static_cast<bool>(std::ofstream(group / "cgroup.procs") << getpid() << std::flush);
      Interrupts interrupts;
      const ProcessEnd end = run(folder, interrupts);
      _exit(!entered || end.signal != SIGKILL || !end.out_of_memory ? 2 : *end.out_of_memory ? 1 : 0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WEXITSTATUS(status);
  };
  const auto end_in_group = [&](const std::string& script) {
    return in_group([&](const TemporaryFolder& folder, Interrupts& interrupts) {
      return run_process({{"python3", "-c", script}, {}, folder / "log"}, {}, interrupts);
    });
  };
  const int for_memory = end_in_group("x = bytearray(512 * 1024 * 1024)");
  const int by_hand = end_in_group("import os; os.kill(os.getpid(), 9)");
  const int forked = in_group([&](const TemporaryFolder& folder, Interrupts& interrupts) {
    setenv("FAKE_FORK_SERVERS", (folder / "servers").c_str(), 1);
    ForkServer workers(testing::kFakeWorker);
    RunSpec spec;
    const auto plan = [&](const std::string& rung) {
      spec.rung = rung;
      write_json(folder / "spec.json", to_json(spec));
      return workers.run(
          {{testing::kFakeWorker, "plan", "--spec", folder / "spec.json", "--out", folder / "plan"},
           {},
           folder / "log"},
          {}, interrupts);
    };
    const ProcessEnd end = plan("planmemory");
    const bool goes_on = plan("a").code == 0 &&
                         read_file(folder / "servers").find('\n') + 1 == read_file(folder / "servers").size();
    return goes_on ? end : ProcessEnd{};
  });
  for (int i = 0; i < 100 && rmdir(group.c_str()) != 0; ++i) usleep(20'000);
  if (for_memory == 2) GTEST_SKIP() << "cgroups do not limit memory on this system";
  EXPECT_EQ(for_memory, 1);
  EXPECT_EQ(by_hand, 0);
  EXPECT_EQ(forked, 1) << "the server makes the next plan";
}
}  // namespace
}  // namespace optrush
