#include "launch/progress.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "base/files.h"
#include "base/printable.h"
#include "base/temporary_folder.h"
#include "base/text.h"

namespace optrush {
namespace {
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Fit, CutsByColumnsNotBytes) {
  EXPECT_EQ(fit("short", 10), "short");
  EXPECT_EQ(fit("exactly ten", 11), "exactly ten");
  EXPECT_EQ(fit("exactly ten", 10), "exactly t…");
  EXPECT_EQ(fit("héllo wörld", 6), "héllo…");
  EXPECT_EQ(fit("日本語", 6), "日本語");
  EXPECT_EQ(fit("日本語", 5), "日本…");
  EXPECT_EQ(fit("日本語", 4), "日…") << "a wide character is not cut";
  EXPECT_EQ(fit("anything", 1), "…");
  EXPECT_EQ(fit("anything", 0), "");
}

TEST(Fit, SurvivesAnyBytes) {
  EXPECT_EQ(fit("\xff\xfe", 10).size(), 2);
  EXPECT_EQ(fit("ab\xe6\x97", 10), "ab\xe6\x97");
}

TEST(Printable, ControlCharactersAreReplaced) {
  EXPECT_EQ(printable("a\x1b[2Jb\rc\nd\te\x7f"), "a?[2Jb?c?d?e?");
  EXPECT_EQ(printable("C1: \xc2\x9b, right to left: \xe2\x80\xae"), "C1: ?, right to left: ?");
  EXPECT_EQ(printable("ends \xe2\x80\xa8 and marks \xe2\x81\xa6\xef\xbb\xbf"), "ends ? and marks ??");
  EXPECT_EQ(printable("naïve 日本 👩\u200D💻"), "naïve 日本 👩\u200D💻");
  EXPECT_EQ(printable_lines("one\ntwo\r\n\x1b[31m"), "one\ntwo?\n?[31m");
}

TEST(ClockTime, Units) {
  EXPECT_EQ(clock_time(0.04), "0.0 s");
  EXPECT_EQ(clock_time(9.94), "9.9 s");
  EXPECT_EQ(clock_time(9.96), "10 s");
  EXPECT_EQ(clock_time(59.6), "1 min");
  EXPECT_EQ(clock_time(185), "3 min 5 s");
  EXPECT_EQ(clock_time(3720), "1 h 2 min");
}

class Metrics : public ::testing::Test {
 protected:
  const TemporaryFolder folder_;
  const std::filesystem::path file_ = folder_ / "metrics.jsonl";
};

TEST_F(Metrics, AreReadIncrementally) {
  MetricsTail tail(file_);
  EXPECT_EQ(tail.update().phase, "") << "the file does not exist";
  append_line(file_, R"({"event":"phase","name":"warmup"})");
  append_line(file_, R"({"event":"step","step":0,"timed":false,"loss":6.0,"tokens":100,"seconds":9.0})");
  EXPECT_EQ(tail.update().phase, "warmup");
  EXPECT_EQ(tail.update().steps, 1);
  EXPECT_FALSE(tail.update().tokens_per_second()) << "warm-up does not count";
  append_line(file_, R"({"event":"step","step":1,"timed":true,"loss":5.5,"tokens":100,"seconds":0.5})");
  append_line(file_, R"({"event":"step","step":2,"timed":true,"loss":null,"tokens":100,"seconds":0.5})");
  EXPECT_EQ(tail.update().steps, 3);
  EXPECT_EQ(tail.update().tokens_per_second(), 200);
  EXPECT_EQ(tail.update().loss, std::nullopt);
  append_line(file_, R"({"event":"phase","name":"compiling model.layers.0"})");
  EXPECT_EQ(tail.update().phase, "compiling model.layers.0");
}

TEST_F(Metrics, IncompleteLinesWaitAndInvalidLinesAreSkipped) {
  MetricsTail tail(file_);
  const std::string line = R"({"event":"step","loss":1.5})";
  write_file(file_, "junk\n[1]\n{\"event\":\"step\",\"loss\":\"x\",\"timed\":1}\n" + line.substr(0, 12));
  EXPECT_EQ(tail.update().steps, 1);
  append_line(file_, line.substr(12));
  EXPECT_EQ(tail.update().steps, 2);
  EXPECT_EQ(tail.update().loss, 1.5);
}

TEST_F(Metrics, StepsOfAnEarlierStartAreCountedSeparately) {
  MetricsTail tail(file_);
  for (int i = 0; i < 4; ++i) append_line(file_, R"({"event":"step","loss":1.5})");
  append_line(file_, R"({"event":"continued","steps":4})");
  append_line(file_, R"({"event":"step","loss":1.4})");
  EXPECT_EQ(tail.update().steps, 5);
  EXPECT_EQ(tail.update().steps_before, 4);
}

TEST_F(Metrics, RewrittenFileIsReadFromItsFirstLine) {
  MetricsTail tail(file_);
  append_line(file_, R"({"event":"phase","name":"warmup"})");
  for (int i = 0; i < 4; ++i) append_line(file_, R"({"event":"step","loss":1.5})");
  EXPECT_EQ(tail.update().steps, 4);
  append_line(file_, R"({"event":"step","loss":1.5})");  // the reader does not see this line
  write_file(file_, "{\"event\":\"progress\",\"steps\":5,\"phase\":\"measuring\"}\n");
  append_line(file_, R"({"event":"step","loss":1.4})");
  EXPECT_EQ(tail.update().steps, 6);
  EXPECT_EQ(tail.update().phase, "measuring");
}

TEST_F(Metrics, TakesTheLengthFromTheRun) {
  MetricsTail tail(file_);
  const TrainSpec train{.steps = 100, .warmup = 3};
  append_line(file_, R"({"event":"step","loss":1.5})");
  EXPECT_EQ(tail.update().length_by(train), 103);
  append_line(file_, R"({"event":"length","steps":40})");
  EXPECT_EQ(tail.update().length_by(train), 40);
}

RunSpec spec_of(int64_t variant, Purpose purpose = Purpose::measure) {
  RunSpec spec;
  spec.rung = "rung " + std::to_string(variant);
  spec.purpose = purpose;
  spec.variant = variant;
  spec.train.warmup = 3;
  spec.train.steps = 7;
  return spec;
}

TEST(TimeLeftTest, IsEstimatedFromFinishedWork) {
  TimeLeft left;
  EXPECT_FALSE(left.remaining({{spec_of(0), 5, 0}}, {})) << "no run has finished";
  EXPECT_EQ(left.remaining({{spec_of(0), 5, 5}}, {}), 5) << "half of the steps are made";
  EXPECT_EQ(left.remaining({{spec_of(0), 5, 5}}, {{work_of(spec_of(1)), 1}}), 15)
      << "the next run may take as long";
  EXPECT_EQ(left.remaining({{spec_of(0), 5, 5}, {spec_of(1), 2, 0}}, {}), 5 + 8) << "both are under way";
  EXPECT_EQ(left.remaining({{spec_of(0), 5, 1, 8}}, {}), 5) << "eight of ten steps were made before";
  EXPECT_EQ(left.remaining({{spec_of(0), 5, 5, 0, 6}}, {}), 1) << "the epochs are complete after six steps";
  left.done(work_of(spec_of(0)), 10);
  left.done(work_of(spec_of(1)), 20);
  EXPECT_EQ(left.remaining({{spec_of(0), 4, 0}}, {{work_of(spec_of(1)), 1}, {work_of(spec_of(2)), 1}}),
            6 + 20 + 15);
  EXPECT_EQ(left.remaining({{spec_of(0), 40, 9}}, {}), 0) << "never negative";
  EXPECT_EQ(left.expected(work_of(spec_of(0, Purpose::drift))), 10);
  RunSpec shorter = spec_of(0, Purpose::drift);
  shorter.train.steps -= (shorter.train.warmup + shorter.train.steps) / 2;
  EXPECT_EQ(left.expected(work_of(shorter)), 5) << "half as many steps";
  EXPECT_FALSE(left.expected(work_of(spec_of(0, Purpose::probe)))) << "a probe has another length";
}

/// A pseudo-terminal with a width. Its content can be read as a screen.
class Screen {
 public:
  explicit Screen(unsigned short columns) : master_(posix_openpt(O_RDWR | O_NOCTTY)) {
    grantpt(master_);
    unlockpt(master_);
    slave_ = open(ptsname(master_), O_RDWR | O_NOCTTY);
    const winsize size{.ws_row = 24, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
    ioctl(slave_, TIOCSWINSZ, &size);
  }
  ~Screen() {
    close(slave_);
    close(master_);
  }
  int fd() const { return slave_; }
  /// The output up to `end`.
  std::string written_until(const std::string& end) const {
    std::string text;
    std::array<char, 1024> buffer{};
    while (!text.ends_with(end)) {
      const ssize_t n = read(master_, buffer.data(), buffer.size());
      if (n <= 0) break;
      text.append(buffer.data(), static_cast<size_t>(n));
    }
    return text;
  }

 private:
  int master_, slave_ = -1;
};

class ProgressTest : public Metrics {
 protected:
  void SetUp() override {
    setenv("TERM", "xterm", 1);
    unsetenv("NO_COLOR");
  }
  static const Job& job() {
    static const Job job{"01-a-r1", [] {
                           RunSpec spec = spec_of(1);
                           spec.rung = "a";
                           return spec;
                         }()};
    return job;
  }
};

TEST_F(ProgressTest, OneLineIsRedrawnOnATerminal) {
  const Screen screen(53);
  Progress progress(Terminal::of(screen.fd()));
  append_line(file_, R"({"event":"step","timed":true,"loss":5.4321,"tokens":2000,"seconds":1.0})");
  progress.begin(job(), {2, 4, "round 1/3"}, file_, {});
  EXPECT_EQ(screen.written_until("…"), "\r\x1b[2K[2/4] a, round 1/3: step 1/10, 2,000 tokens/s, loss…");
  RunResult good;
  good.tokens_per_second = 1234;
  progress.end(job(), good);
  EXPECT_THAT(screen.written_until("\n"),
              HasSubstr("[2/4] a, round 1/3: \x1b[32mok\x1b[0m, 1,234 tokens/s, 0.0 s\r\n"));
}

TEST_F(ProgressTest, TheLineIsNarrowerThanTheTerminal) {
  const Screen screen(20);
  Progress progress(Terminal::of(screen.fd()));
  progress.begin(job(), {2, 4, "round 1/3"}, file_, {});
  EXPECT_EQ(screen.written_until("…"), "\r\x1b[2K[2/4] a, round 1/3…");
}

TEST_F(ProgressTest, RanksAreShown) {
  Job several = job();
  several.spec.train.world_size = 4;
  const Screen screen(80);
  Progress progress(Terminal::of(screen.fd()));
  progress.begin(several, {2, 4, "round 1/3"}, file_, {});
  EXPECT_EQ(screen.written_until("starting"), "\r\x1b[2K[2/4] a, round 1/3, 4 ranks: starting");
}

TEST_F(ProgressTest, NoColorDisablesColors) {
  setenv("NO_COLOR", "1", 1);
  const Screen screen(80);
  Progress progress(Terminal::of(screen.fd()));
  progress.begin(job(), {1, 1, "drift"}, file_, {});
  progress.end(job(), RunResult({Status::failed, "first\nsecond"}));
  const std::string text = screen.written_until("\n");
  EXPECT_THAT(text, HasSubstr("[1/1] a, drift: failed, 0.0 s: first\r\n"));
  EXPECT_THAT(text, Not(HasSubstr("\x1b[3")));
}

TEST_F(ProgressTest, PlainLinesWithoutATerminal) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  {
    Progress progress(Terminal::of(ends[1]));
    progress.stage("planning");
    progress.begin(job(), {1, 2, "round 1/1"}, file_, {});
    progress.tick();
    progress.note("a note");
    progress.end(job(), {});
  }
  close(ends[1]);
  std::array<char, 1000> buffer{};
  const ssize_t n = read(ends[0], buffer.data(), buffer.size());
  close(ends[0]);
  EXPECT_EQ(std::string(buffer.data(), static_cast<size_t>(n)), "a note\n[1/2] a, round 1/1: ok, 0.0 s\n");
}

// In an interleaved round the base may end last. Lines have the order of the runs, with speeds against the
// base.
TEST_F(ProgressTest, InterleavedRunsAreReportedInOrder) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  const auto job_of = [](int64_t variant) {
    RunSpec spec = spec_of(variant);
    spec.round = 1;
    return Job{"run " + std::to_string(variant), spec};
  };
  const auto result_of = [](double speed) {
    RunResult result;
    result.tokens_per_second = speed;
    return result;
  };
  {
    Progress progress(Terminal::of(ends[1]));
    for (const int64_t variant : {1, 2, 0})
      progress.begin(job_of(variant), {static_cast<size_t>(4 + variant), 6, "round 2/2"}, file_, {});
    progress.end(job_of(2), RunResult({Status::oom, "too large"}));
    progress.end(job_of(1), result_of(1500));
    progress.end(job_of(0), result_of(1000));
    progress.begin(job_of(3), {7, 7, "round 2/2"}, file_, {});
    progress.end(job_of(3), result_of(800));
    progress.begin(job_of(4), {8, 8, "round 2/2"}, file_, {});
    progress.begin(job_of(5), {9, 9, "round 2/2"}, file_, {});
    progress.end(job_of(5), result_of(2000));
  }  // ended runs are shown while another runs
  close(ends[1]);
  std::array<char, 1000> buffer{};
  const ssize_t n = read(ends[0], buffer.data(), buffer.size());
  close(ends[0]);
  EXPECT_EQ(std::string(buffer.data(), static_cast<size_t>(n)),
            "[4/6] rung 0, round 2/2: ok, 1,000 tokens/s, 0.0 s\n"
            "[5/6] rung 1, round 2/2: ok, 1,500 tokens/s (1.50x base), 0.0 s\n"
            "[6/6] rung 2, round 2/2: oom, 0.0 s: too large\n"
            "[7/7] rung 3, round 2/2: ok, 800 tokens/s (0.80x base), 0.0 s\n"
            "[9/9] rung 5, round 2/2: ok, 2,000 tokens/s (2.00x base), 0.0 s\n");
}

TEST_F(ProgressTest, ADumbTerminalIsNotRedrawn) {
  setenv("TERM", "dumb", 1);
  const Screen screen(80);
  EXPECT_FALSE(Terminal::of(screen.fd()).live);
}
}  // namespace
}  // namespace optrush
