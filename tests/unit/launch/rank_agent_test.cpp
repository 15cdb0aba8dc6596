// A process of a job with a rank above 0; the test plays rank 0.
#include "launch/ranks/remote_ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <csignal>
#include <thread>

#include "ends.h"
#include "job_fixture.h"
#include "spec/spec_json.h"

namespace optrush {
namespace {
namespace fs = std::filesystem;
using std::chrono::milliseconds;
using testing::becomes_true;
using ::testing::HasSubstr;
using testing::JobTest;
using testing::kMaxMessageBytes;

/// An agent in a child process. The test is its rank 0.
class RankAgentTest : public JobTest {
 protected:
  RankAgentTest() : listener_(listen_at(port_, true)) {}
  ~RankAgentTest() override {
    if (pid_ > 0) kill(pid_, SIGKILL), waitpid(pid_, nullptr, 0);
  }
  void run_in_child() {
    error_file_ = folder_ / "error";
    pid_ = fork();
    if (pid_ != 0) return;
    listener_.close();
    int code = 1;
    try {
      Launched here = place(1);
      here.ports.insert(here.ports.end(), more_ports_.begin(), more_ports_.end());
      code = run_rank_agent(here, "sha", testing::kFakeWorker, secret_);
    } catch (const Error& e) {
      write_file(error_file_, e.what());
    }
    _exit(code);
  }
  Channel accepted() {
    Descriptor socket;
    becomes_true([&] { return (socket = accept_from(listener_)).get() >= 0; });
    return as_rank_0(std::move(socket));
  }
  Channel as_rank_0(Descriptor socket) const {
    return {std::move(socket), kMaxMessageBytes, Handshake(Handshake::End::rank_0, secret_)};
  }
  Channel welcomed() {
    run_in_child();
    Channel channel = accepted();
    EXPECT_EQ(next(channel).value("type", ""), "hello");
    channel.send({{"type", "welcome"}});
    return channel;
  }
  void start(Channel& channel, const std::string& rung) const {
    RunSpec spec;
    spec.rung = rung;
    spec.train.world_size = 3;
    channel.send({{"type", "start"},
                  {"run", 1},
                  {"spec", to_json(spec)},
                  {"store", "127.0.0.1:1"},
                  {"state", "/tmp/state"},
                  {"from_step", nullptr},
                  {"local_size", 3}});
  }
  int exit_code() {
    int status = 0;
    EXPECT_EQ(waitpid(std::exchange(pid_, -1), &status, 0) > 0, true);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  std::string error() const { return fs::exists(error_file_) ? read_file(error_file_) : ""; }
  pid_t worker() const {
    becomes_true([&] { return fs::exists(folder_ / "worker"); });
    return read_json(folder_ / "worker").get<pid_t>();
  }

  Descriptor listener_;
  std::vector<uint16_t> more_ports_;
  fs::path error_file_;
  pid_t pid_ = -1;
};

TEST_F(RankAgentTest, StartsItsRankAndReportsItsEnd) {
  Channel channel = welcomed();
  start(channel, "good");
  const Json message = next(channel);
  EXPECT_EQ(message.at("type"), "end");
  EXPECT_EQ(message.at("run"), 1);
  const RankEnd end = rank_end_from_json(message);
  EXPECT_EQ(end.verdict(), RankEnd::Verdict::ok);
  channel.send(to_json(ClosingMessage{}, "done"));
  EXPECT_EQ(exit_code(), 0);
  EXPECT_EQ(error(), "");
}

TEST_F(RankAgentTest, TerminationEndsItsWorker) {
  setenv("FAKE_PID_FILE", (folder_ / "worker").c_str(), 1);
  Channel channel = welcomed();
  start(channel, "slow");
  const pid_t pid = worker();
  channel.send({{"type", "terminate"}});
  const RankEnd end = rank_end_from_json(next(channel));
  EXPECT_EQ(end.end.signal, SIGTERM);
  EXPECT_TRUE(testing::ends(pid));
}

TEST_F(RankAgentTest, LossOfRank0EndsItAndItsWorker) {
  setenv("FAKE_PID_FILE", (folder_ / "worker").c_str(), 1);
  pid_t pid = 0;
  {
    Channel channel = welcomed();
    start(channel, "slow");
    pid = worker();
  }
  EXPECT_EQ(exit_code(), 1);
  EXPECT_THAT(error(), HasSubstr("the connection to rank 0 at 127.0.0.1"));
  EXPECT_TRUE(testing::ends(pid));
}

TEST_F(RankAgentTest, InterruptEndsItAndItsWorker) {
  setenv("FAKE_PID_FILE", (folder_ / "worker").c_str(), 1);
  Channel channel = welcomed();
  start(channel, "slow");
  const pid_t pid = worker();
  kill(pid_, SIGINT);
  Json message = next(channel);
  EXPECT_EQ(message.at("type"), "signal");
  EXPECT_EQ(message.at("number"), SIGINT);
  std::this_thread::sleep_for(milliseconds(200));
  EXPECT_EQ(kill(pid, 0), 0) << "rank 0 decides how its worker ends";
  channel.send(to_json(ClosingMessage{128 + SIGINT, "interrupted by SIGINT"}, "done"));
  EXPECT_EQ(exit_code(), 128 + SIGINT);
  EXPECT_EQ(error(), "");
  EXPECT_TRUE(testing::ends(pid));
}

TEST_F(RankAgentTest, SecondSignalEndsItWithoutRank0) {
  setenv("FAKE_PID_FILE", (folder_ / "worker").c_str(), 1);
  Channel channel = welcomed();
  start(channel, "slow");
  const pid_t pid = worker();
  kill(pid_, SIGTERM);
  EXPECT_EQ(next(channel).at("type"), "signal");
  std::this_thread::sleep_for(milliseconds(2100));
  kill(pid_, SIGTERM);
  const Json leave = next(channel);
  EXPECT_EQ(leave.at("type"), "leave");
  EXPECT_EQ(leave.at("code"), 128 + SIGTERM);
  EXPECT_THAT(leave.at("reason").get<std::string>(), HasSubstr("a second signal"));
  EXPECT_EQ(exit_code(), 128 + SIGTERM);
  EXPECT_TRUE(testing::ends(pid));
}

TEST_F(RankAgentTest, SignalEndsItAfterTheLossOfRank0) {
  {
    Channel channel = welcomed();
    kill(pid_, SIGTERM);
    EXPECT_EQ(next(channel).at("type"), "signal");
  }
  EXPECT_EQ(exit_code(), 128 + SIGTERM);
  EXPECT_EQ(error(), "");
}

TEST_F(RankAgentTest, ExitsWithTheCodeOfRank0) {
  Channel channel = welcomed();
  channel.send(to_json(ClosingMessage{1, "not every run ended well"}, "done"));
  EXPECT_EQ(exit_code(), 1);
}

TEST_F(RankAgentTest, ReportsAnErrorBeforeItLeaves) {
  Channel channel = welcomed();
  channel.send({{"type", 7}});
  const Json leave = next(channel);
  EXPECT_EQ(leave.at("type"), "leave");
  EXPECT_EQ(leave.at("code"), 1);
  EXPECT_THAT(leave.at("reason").get<std::string>(), HasSubstr("rank 0 sent an invalid message"));
  EXPECT_EQ(exit_code(), 1);
}

TEST_F(RankAgentTest, ForwardsLogAndStepsOfItsWorker) {
  Channel channel = welcomed();
  start(channel, "talks");
  Seen seen;
  while (seen.log.find("said\n") == std::string::npos || seen.steps < 2) {
    const Json message = next(channel);
    ASSERT_EQ(message.value("type", ""), "seen") << message;
    EXPECT_EQ(message.at("run"), 1);
    seen = seen_from_json(message);
  }
  EXPECT_EQ(seen.phase, "warmup");
}

/// The first port belongs to another job, to another program, or to a silent server. Rank 0 listens at a
/// later port.
TEST_F(RankAgentTest, TriesEveryPortOfItsJob) {
  for (const std::string answer : {"refused", "HTTP/1.1 400", ""}) {
    more_ports_ = {free_port(), free_port()};
    const Descriptor own = listen_at(more_ports_.back(), true);
    run_in_child();
    Descriptor wrong;
    ASSERT_TRUE(becomes_true([&] { return (wrong = accept_from(listener_)).get() >= 0; }));
    if (answer == "refused") {
      Channel rank_0_of_another_job = as_rank_0(std::move(wrong));
      EXPECT_EQ(next(rank_0_of_another_job).value("type", ""), "hello");
      rank_0_of_another_job.send(
          {{"type", "refused"}, {"reason", "it is of another job"}, {"other_job", true}});
    } else if (!answer.empty()) {
      send(wrong.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
    }
    wrong.close();
    Descriptor socket;
    ASSERT_TRUE(becomes_true([&] { return (socket = accept_from(own)).get() >= 0; })) << answer;
    Channel channel = as_rank_0(std::move(socket));
    EXPECT_EQ(next(channel).value("type", ""), "hello");
    channel.send({{"type", "welcome"}});
    channel.send(to_json(ClosingMessage{}, "done"));
    EXPECT_EQ(exit_code(), 0) << answer << ": " << error();
    listener_ = Descriptor();
    listener_ = listen_at(port_, true);
  }
}

TEST_F(RankAgentTest, RefusalIsAnError) {
  run_in_child();
  Channel channel = accepted();
  EXPECT_EQ(next(channel).value("type", ""), "hello");
  channel.send({{"type", "refused"}, {"reason", "it has a different script"}});
  EXPECT_EQ(exit_code(), 1);
  EXPECT_THAT(error(), HasSubstr("rank 0 refused this rank: it has a different script"));
}

TEST_F(RankAgentTest, AnotherServerIsAnError) {
  run_in_child();
  Descriptor socket;
  ASSERT_TRUE(becomes_true([&] { return (socket = accept_from(listener_)).get() >= 0; }));
  const std::string text = "HTTP/1.1 400 Bad Request\r\n\r\n";
  send(socket.get(), text.data(), text.size(), MSG_NOSIGNAL);
  EXPECT_EQ(exit_code(), 1);
  EXPECT_THAT(error(), HasSubstr("a program other than rank 0"));
}

TEST_F(RankAgentTest, UnreadableSpecIsAFailureOfTheRank) {
  Channel channel = welcomed();
  channel.send({{"type", "start"}, {"run", 1}, {"spec", {{"modle", 1}}}, {"store", ""}, {"local_size", 3}});
  const RankEnd end = rank_end_from_json(next(channel));
  EXPECT_EQ(end.verdict(), RankEnd::Verdict::own);
  EXPECT_THAT(end.result.value().reason, HasSubstr("modle"));
}

TEST_F(RankAgentTest, MissingRank0IsReportedWithWhatToCheck) {
  listener_.close();
  setenv("OPTRUSH_JOIN_TIMEOUT", "0.2", 1);
  run_in_child();
  EXPECT_EQ(exit_code(), 1);
  unsetenv("OPTRUSH_JOIN_TIMEOUT");
  EXPECT_THAT(error(),
              HasSubstr("there is no rank 0 at 127.0.0.1:" + std::to_string(port_) + ": Connection refused"));
  EXPECT_THAT(error(), HasSubstr("firewall"));
}

TEST_F(RankAgentTest, WaitsForALateRank0) {
  listener_.close();
  run_in_child();
  std::this_thread::sleep_for(milliseconds(300));
  listener_ = listen_at(port_, true);
  Channel channel = accepted();
  EXPECT_EQ(next(channel).value("rank", 0), 1);
}
}  // namespace
}  // namespace optrush
