// While a run sets up, a worker opens the GPU for the next one. Only the order is tested: nothing is opened
// while steps are timed.
#include <gmock/gmock.h>

#include <algorithm>

#include "ends.h"
#include "fixture.h"

namespace optrush {
namespace {
namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

class PreparedWorkers : public testing::Launch {
 protected:
  PreparedWorkers() {
    setenv("FAKE_WORKER_TURNS", turns_file_.c_str(), 1);
    setenv("FAKE_MEMORY", "80e9", 1);
    setenv("FAKE_RESERVED", "60e9", 1);
  }
  ~PreparedWorkers() override {
    for (const char* name : {"FAKE_WORKER_TURNS", "FAKE_MEMORY", "FAKE_RESERVED", "FAKE_PREPARE"})
      unsetenv(name);
  }
  std::vector<std::string> lines() const {
    std::vector<std::string> all;
    if (!fs::exists(turns_file_)) return all;
    std::istringstream text(read_file(turns_file_));
    for (std::string line; std::getline(text, line);) all.push_back(line);
    return all;
  }
  /// The runs of prepared workers, in order.
  std::vector<std::string> prepared_runs() const {
    static const std::string kRuns = "a prepared worker runs ";
    std::vector<std::string> runs;
    for (const auto& line : lines())
      if (line.starts_with(kRuns)) runs.push_back(line.substr(kRuns.size()));
    return runs;
  }
  const fs::path turns_file_ = folder_ / "turns";
};

TEST_F(PreparedWorkers, OpenTheGpuBeforeTheTimedSteps) {
  EXPECT_TRUE(run(experiment({"a", "b"})).all_ok);
  EXPECT_THAT(prepared_runs(), ::testing::ElementsAre("01-a-r1", "02-b-r1"));
  // From the first turn of a run to the start of the next one, no worker opens the GPU.
  size_t prepared = 0;
  bool timed = false;
  for (const auto& line : lines()) {
    if (line.find(" has ") != std::string::npos) timed = true;
    if (line.find(" starts") != std::string::npos) timed = false;
    if (line != "prepared") continue;
    ++prepared;
    EXPECT_FALSE(timed) << "while steps are timed";
  }
  EXPECT_EQ(prepared, 2U) << "one for each run but the first";
  EXPECT_EQ(result("01-a-r1").at("steps").size(), 13U) << "every step is made";
}

TEST_F(PreparedWorkers, AreOnlyStartedIfTheGpuHasRoomForTwoContexts) {
  setenv("FAKE_RESERVED", "79e9", 1);
  EXPECT_TRUE(run(experiment({"a", "b"})).all_ok);
  EXPECT_THAT(lines(), Not(Contains("prepared")));
  EXPECT_THAT(starts(), SizeIs(4));
}

TEST_F(PreparedWorkers, AreNotNeeded) {
  setenv("FAKE_PREPARE", "fails", 1);
  EXPECT_TRUE(run(experiment({"a", "b"})).all_ok);
  EXPECT_THAT(prepared_runs(), IsEmpty());
}

TEST_F(PreparedWorkers, WriteTheLogOfTheirRun) {
  run(experiment({"crash"}));
  EXPECT_THAT(prepared_runs(), Contains("01-crash-r1"));
  EXPECT_EQ(status("01-crash-r1"), "crashed");
  EXPECT_THAT(reason("01-crash-r1"), HasSubstr("the last words"));
}

TEST_F(PreparedWorkers, EndWithTheExperiment) {
  setenv("FAKE_PREPARE", "hangs", 1);
  EXPECT_EQ(run(experiment({"a", "b"})).signal, SIGINT);
  const auto all = lines();
  const auto hangs = std::ranges::find_if(all, [](const auto& line) { return line.starts_with("hangs "); });
  ASSERT_NE(hangs, all.end());
  EXPECT_TRUE(testing::ends(static_cast<pid_t>(std::stol(hangs->substr(6)))));
}
}  // namespace
}  // namespace optrush
