#include "worker/metrics_log.h"

#include <gtest/gtest.h>

#include "base/files.h"
#include "base/temporary_folder.h"

namespace optrush {
namespace {
constexpr size_t kLimit = 2000;

class MetricsLogTest : public ::testing::Test {
 protected:
  static void make(MetricsLog& log, int64_t steps) {
    log.append({{"event", "phase"}, {"name", "measuring"}});
    for (int64_t step = 0; step < steps; ++step)
      log.append({{"event", "step"}, {"step", step}, {"loss", 1.5}});
  }
  const TemporaryFolder folder_;
  const std::filesystem::path file_ = folder_ / "metrics.jsonl";
};

TEST_F(MetricsLogTest, LinesHaveTimeAndRank) {
  append_line(file_, "of an earlier run");
  MetricsLog log(file_, 2, 3);
  make(log, 1);
  log.append({{"event", "step"}, {"step", 1}, {"earlier", true}});
  log.append({{"event", "phase"}, {"name", "saving"}});
  const auto lines = read_json_lines(file_);
  ASSERT_EQ(lines.size(), 4);
  constexpr double kThisYear = 1.7e9;
  for (const Json& line : lines) EXPECT_EQ(line.at("rank"), 2);
  EXPECT_GT(lines[1].at("time").get<double>(), kThisYear);
  EXPECT_FALSE(lines[2].contains("time")) << "the time of another process's step is unknown";
  EXPECT_EQ(lines[3].at("steps"), 2) << "steps so far";
}

TEST_F(MetricsLogTest, LinesOfASingleRankHaveNoRank) {
  MetricsLog log(file_, 0, 1);
  make(log, 1);
  EXPECT_FALSE(read_json_lines(file_).front().contains("rank"));
}

TEST_F(MetricsLogTest, LaterRanksKeepABoundedFile) {
  MetricsLog log(file_, 1, 2, kLimit);
  make(log, 1000);
  EXPECT_LE(std::filesystem::file_size(file_), kLimit);
  const auto lines = read_json_lines(file_);
  EXPECT_EQ(lines.front().at("event"), "progress");
  EXPECT_EQ(lines.front().at("phase"), "measuring");
  EXPECT_EQ(lines.front().at("steps").get<size_t>() + lines.size() - 1, 1000) << "no step is counted twice";
  EXPECT_EQ(lines[1].at("step"), lines.front().at("steps"));
  EXPECT_EQ(lines.back().at("step"), 999);
}

TEST_F(MetricsLogTest, FirstRankKeepsTheWholeRun) {
  MetricsLog log(file_, 0, 2, kLimit);
  make(log, 1000);
  EXPECT_EQ(read_json_lines(file_).size(), 1001);
}
}  // namespace
}  // namespace optrush
