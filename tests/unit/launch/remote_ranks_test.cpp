// Rank 0 of a job; the test plays the other processes.
#include "launch/ranks/remote_ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <csignal>
#include <thread>

#include "job_fixture.h"
#include "machine/environment.h"
#include "spec/spec_json.h"

namespace optrush {
namespace {
namespace fs = std::filesystem;
using std::chrono::milliseconds;
using testing::becomes_true;
using testing::error_of;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::JobTest;

class Rank0Test : public JobTest {
 protected:
  Hello hello(int64_t rank) const { return hello_of(place(rank), "sha"); }
  /// Sends a message and returns the answer.
  Json answer_to(Channel& channel, const Json& message) {
    channel.send(message);
    Json answer;
    becomes_true([&] {
      remote_ranks_.listen(interrupts_);
      const auto came = channel.receive();
      if (came) answer = *came;
      return came.has_value() || !channel.is_open();
    });
    return answer;
  }
  std::unique_ptr<RunningRank> started(int64_t rank) {
    RunSpec spec;
    spec.train.world_size = 3;
    return remote_ranks_.start(rank, {.id = "00-base-r1", .spec = spec}, "127.0.0.1:1", folder_.path());
  }
  static std::optional<RankEnd> end_of(RunningRank& rank) {
    std::optional<RankEnd> end;
    becomes_true([&] { return (end = rank.poll()).has_value(); });
    return end;
  }
  Interrupts interrupts_;
  RemoteRanks remote_ranks_{place(0), "sha", secret_};
};

TEST_F(JobTest, AgentsGetTheEndOfTheJob) {
  Launched zero = place(0), one = place(1);
  zero.size = one.size = 2;
  std::vector<std::string> heard;
  std::jthread peer;
  {
    RemoteRanks remote_ranks(zero, "sha", secret_);
    Channel channel = connected();
    channel.send(to_json(hello_of(one, "sha")));
    Interrupts interrupts;
    Json answer;
    ASSERT_TRUE(becomes_true([&] {
      remote_ranks.listen(interrupts);
      const auto came = channel.receive();
      if (came) answer = *came;
      return came.has_value();
    }));
    ASSERT_EQ(answer.at("type"), "welcome");
    // Rank 0 waits until the agent closes the connection.
    peer = std::jthread([&heard, channel = std::move(channel)]() mutable {
      becomes_true([&] {
        while (const auto message = channel.receive()) heard.push_back(message->at("type"));
        return !heard.empty() || !channel.is_open();
      });
      channel.close();
    });
  }
  peer.join();
  EXPECT_EQ(heard, std::vector<std::string>{"done"});
}

TEST_F(Rank0Test, AgentsGetTheExitCodeOfRank0) {
  Channel first = connected(), second = connected();
  answer_to(first, to_json(hello(1)));
  answer_to(second, to_json(hello(2)));
  std::jthread dismissing([&] { remote_ranks_.dismiss({.code = 3, .reason = "why"}); });
  for (Channel* peer : {&first, &second}) {
    const Json done = next(*peer);
    EXPECT_EQ(done.at("type"), "done");
    EXPECT_EQ(done.at("code"), 3);
    EXPECT_EQ(done.at("reason"), "why");
    peer->close();
  }
}

TEST_F(Rank0Test, SignalToAnAgentIsASignalToTheJob) {
  Channel peer = connected();
  answer_to(peer, to_json(hello(2)));
  const auto rank = started(2);
  next(peer);
  peer.send({{"type", "signal"}, {"number", SIGTERM}});
  EXPECT_TRUE(becomes_true([&] {
    remote_ranks_.listen(interrupts_);
    return interrupts_.signal() == SIGTERM;
  }));
  EXPECT_THAT(interrupts_.describe(), HasSubstr("which rank 2 (host "));
  EXPECT_FALSE(rank->poll()) << "the rank continues until rank 0 ends it";
  peer.send({{"type", "leave"}, {"code", 143}, {"reason", "rank 0 did not end the job"}});
  const auto end = end_of(*rank);
  ASSERT_TRUE(end);
  EXPECT_EQ(end->lost, "it left with exit code 143: rank 0 did not end the job");
}

TEST_F(Rank0Test, LogOfALostAgentIsKept) {
  std::optional<Channel> peer(connected());
  answer_to(*peer, to_json(hello(1)));
  const auto rank = started(1);
  Json seen = to_json(Seen{.phase = "measuring", .steps = 7, .log = "one\ntwo\n"});
  seen["run"] = next(*peer).at("run");
  peer->send(seen);
  for (int i = 0; i < 20; ++i, std::this_thread::sleep_for(milliseconds(5))) EXPECT_FALSE(rank->poll());
  peer.reset();
  const auto end = end_of(*rank);
  ASSERT_TRUE(end);
  EXPECT_EQ(end->lost, "the connection to it was closed");
  EXPECT_EQ(end->verdict(), RankEnd::Verdict::outside);
  EXPECT_EQ(end->state.steps, 7);
  EXPECT_EQ(end->log, "one\ntwo");
  EXPECT_EQ(read_file(folder_ / "ranks/1/log.txt"), "one\ntwo\n");
}

TEST_F(Rank0Test, PortOfAnotherProgramIsSkipped) {
  Launched here = place(0);
  here.ports = {port_, port_, free_port()};
  const RemoteRanks other(here, "sha", secret_);
  EXPECT_EQ(other.here().ports, std::vector{here.ports.back()});
}

TEST_F(Rank0Test, AgentGetsWhatToStart) {
  Channel peer = connected();
  EXPECT_EQ(answer_to(peer, to_json(hello(2))).at("type"), "welcome");
  const auto rank = started(2);
  const Json start = next(peer);
  EXPECT_EQ(start.at("type"), "start");
  EXPECT_EQ(start.at("store"), "127.0.0.1:1");
  EXPECT_EQ(start.at("state"), (folder_ / "state").string());
  EXPECT_TRUE(start.at("from_step").is_null());
  EXPECT_EQ(start.at("spec").at("train").at("world_size"), 3);
  EXPECT_FALSE(rank->poll());
  rank->terminate();
  EXPECT_EQ(next(peer).at("type"), "terminate");
  RankEnd end{.result = RunResult({Status::failed, "no"})};
  end.result->cause = Cause::peer;
  end.state.steps = 4;
  end.log = "last words";
  Json message = to_json(end);
  message["run"] = start.at("run");
  peer.send(message);
  const auto came = end_of(*rank);
  ASSERT_TRUE(came);
  EXPECT_EQ(came->verdict(), RankEnd::Verdict::peer);
  EXPECT_EQ(came->state.steps, 4);
  EXPECT_EQ(read_file(folder_ / "ranks/2/log.txt"), "last words\n");
  EXPECT_EQ(read_json(folder_ / "ranks/2/result.json").at("reason"), "no");
  EXPECT_THAT(rank->name(), HasSubstr("rank 2 (host "));
}

// Rank 0 uses only the end of another rank, so the message does not grow with the steps.
TEST_F(Rank0Test, EndOfARankIsSmall) {
  RankEnd end{.result = RunResult({Status::oom, std::string(1 << 20, 'x')})};
  end.result->requested_bytes = 7;
  end.result->cause = Cause::own;
  end.result->notes = {std::string(70 << 20, 'n')};
  end.result->steps.resize(200'000);
  const Json message = to_json(end);
  EXPECT_LT(message.dump().size(), 100'000U);
  const RankEnd came = rank_end_from_json(message);
  EXPECT_EQ(came.verdict(), RankEnd::Verdict::own);
  EXPECT_EQ(came.result->status, Status::oom);
  EXPECT_EQ(came.result->requested_bytes, 7);
  EXPECT_TRUE(rank_end_from_json(to_json(RankEnd{.result = RunResult()})).result->ok());
}

TEST_F(Rank0Test, HostsOfAJobAreReported) {
  Hello elsewhere = hello(1), here = hello(2);
  elsewhere.host = "elsewhere";
  elsewhere.hardware = {"a CPU", "2 x a GPU"};
  Channel first = connected(), second = connected();
  EXPECT_EQ(answer_to(first, to_json(elsewhere)).at("type"), "welcome");
  EXPECT_EQ(answer_to(second, to_json(here)).at("type"), "welcome");
  const Json hosts = remote_ranks_.hosts();
  ASSERT_EQ(hosts.size(), 2U) << hosts;
  EXPECT_EQ(hosts[0].at("name"), host_name());
  EXPECT_EQ(hosts[0].at("ranks"), Json({0, 2}));
  EXPECT_EQ(hosts[0].at("cpu"), read_hardware_names().cpu);
  EXPECT_EQ(hosts[1], (Json{{"name", "elsewhere"}, {"ranks", {1}}, {"cpu", "a CPU"}, {"gpus", "2 x a GPU"}}));
}

TEST(HardwareNames, AreReadFromKernelAndDriver) {
  const TemporaryFolder root;
  const auto write = [&](const std::string& file, const std::string& text) {
    fs::create_directories((root / file).parent_path());
    write_file(root / file, text);
  };
  EXPECT_EQ(read_hardware_names(root.path()), HardwareNames{});
  write("proc/cpuinfo", "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\n\nmodel name\t: another\n");
  for (const char* gpu : {"0000:01:00.0", "0000:41:00.0"})
    write(std::string("proc/driver/nvidia/gpus/") + gpu + "/information", "Model: \t\t Some GPU\nIRQ: 7\n");
  EXPECT_EQ(read_hardware_names(root.path()), (HardwareNames{"Some CPU @ 2 GHz", "2 x Some GPU"}));
}

TEST_F(Rank0Test, RanksOfAnotherJobAreRefused) {
  const auto refused = [&](const std::function<void(Hello&)>& change) {
    Hello other = hello(1);
    change(other);
    Channel peer = connected();
    const Json answer = answer_to(peer, to_json(other));
    EXPECT_EQ(answer.value("type", ""), "refused");
    const auto notes = remote_ranks_.take_notes();
    if (!answer.value("other_job", false)) {
      EXPECT_THAT(notes.empty() ? "" : notes.front(), HasSubstr(answer.value("reason", "?")))
          << "both sides report it";
    } else {
      EXPECT_THAT(notes, IsEmpty()) << "its rank 0 is at another port";
    }
    return answer.value("reason", "");
  };
  EXPECT_THAT(refused([](Hello& h) { h.script_sha256 = "other"; }), HasSubstr("different script"));
  EXPECT_THAT(remote_ranks_.missing(2), HasSubstr("rank 1: it was refused: it has a different script"));
  EXPECT_THAT(refused([](Hello& h) { h.version = "0"; }), HasSubstr("different version"));
  EXPECT_THAT(refused([](Hello& h) { h.size = 4; }), HasSubstr("rank 1 of 4, but rank 0 as one of 3"));
  EXPECT_THAT(refused([](Hello& h) { h.rank = 7; }), HasSubstr("different number of ranks"));
  EXPECT_THAT(refused([](Hello& h) { h.job = "k"; }), HasSubstr("another job"));
  Channel first = connected();
  EXPECT_EQ(answer_to(first, to_json(hello(1))).at("type"), "welcome") << "a refused rank may join later";
  EXPECT_THAT(refused([](Hello&) {}), HasSubstr("rank 1 has already joined"));
}

TEST_F(Rank0Test, InvalidMessagesOfAMemberAreIgnored) {
  for (const Json& message :
       {Json{{"type", "start"}}, Json{{"type", "hello"}, {"rank", "x"}}, Json{{"typ", 1}},
        Json{{"type", "hello"}, {"job", std::string(100'000, 'x')}}}) {
    Channel peer = connected();
    EXPECT_TRUE(answer_to(peer, message).is_null()) << message;
    EXPECT_FALSE(peer.is_open()) << message;
  }
  Channel peer = connected();
  EXPECT_EQ(answer_to(peer, to_json(hello(1))).at("type"), "welcome");
}

TEST_F(Rank0Test, LostAgentIsALostRank) {
  std::optional<Channel> peer(connected());
  answer_to(*peer, to_json(hello(1)));
  const auto rank = started(1);
  peer.reset();
  const auto end = end_of(*rank);
  ASSERT_TRUE(end);
  EXPECT_EQ(end->lost, "the connection to it was closed");
  EXPECT_THAT(remote_ranks_.missing(2), HasSubstr("rank 1: the connection to it was closed"));
}

TEST_F(Rank0Test, InvalidAnswerEndsTheAgent) {
  for (const Json& answer :
       {Json{{"type", "end"}, {"run", 1}}, Json{{"type", "welcome"}}, Json{{"typ", 1}}}) {
    Channel peer = connected();
    answer_to(peer, to_json(hello(1)));
    const auto rank = started(1);
    Json message = answer;
    const Json run = next(peer).at("run");
    if (message.contains("run")) message["run"] = run;
    peer.send(message);
    const auto end = end_of(*rank);
    ASSERT_TRUE(end);
    EXPECT_THAT(end->lost, HasSubstr("invalid message")) << answer;
  }
}

TEST_F(Rank0Test, EndOfAnEarlierRunIsIgnored) {
  Channel peer = connected();
  answer_to(peer, to_json(hello(1)));
  const auto rank = started(1);
  Json message = to_json(RankEnd{});
  message["run"] = next(peer).at("run").get<int64_t>() - 1;
  peer.send(message);
  for (int i = 0; i < 20; ++i, std::this_thread::sleep_for(milliseconds(5))) EXPECT_FALSE(rank->poll());
}

TEST_F(Rank0Test, MissingRankIsNamed) {
  Channel peer = connected();
  answer_to(peer, to_json(hello(1)));
  remote_ranks_.take_notes();
  remote_ranks_.join(0.05, interrupts_);
  EXPECT_THAT(remote_ranks_.missing(2), IsEmpty());
  EXPECT_THAT(remote_ranks_.missing(3), HasSubstr("rank 2: it did not join rank 0 at 127.0.0.1:"));
}

TEST_F(Rank0Test, MessageNamesAllMissingRanksAndWhatToCheck) {
  remote_ranks_.join(0.05, interrupts_);
  const auto notes = remote_ranks_.take_notes();
  ASSERT_EQ(notes.size(), 1);
  EXPECT_THAT(notes[0],
              HasSubstr("ranks 1, 2 of 3 did not join rank 0 at 127.0.0.1:" + std::to_string(port_)));
  for (const char* cause : {"MASTER_ADDR", "firewall", "OPTRUSH_CONTROL_PORT", "OPTRUSH_JOIN_TIMEOUT"})
    EXPECT_THAT(notes[0], HasSubstr(cause));
}

TEST_F(Rank0Test, TakenPortIsNamed) {
  EXPECT_THAT(error_of([&] { RemoteRanks(place(0), "sha", secret_); }),
              HasSubstr("cannot listen at port " + std::to_string(port_)));
  EXPECT_THAT(error_of([&] { RemoteRanks(place(0), "sha", secret_); }), HasSubstr("OPTRUSH_CONTROL_PORT"));
}
}  // namespace
}  // namespace optrush
