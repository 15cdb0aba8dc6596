// Unauthenticated peers at the port of a job, and between its processes: they do not know the job's secret.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <deque>
#include <thread>

#include "ends.h"
#include "job_fixture.h"
#include "launch/ranks/remote_ranks.h"

namespace optrush {
namespace {
namespace fs = std::filesystem;
using std::chrono::milliseconds;
using testing::becomes_true;
using ::testing::HasSubstr;
using testing::JobTest;

void say(const Descriptor& socket, std::string_view bytes) {
  send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
}

/// Appends what has arrived. Returns whether the other side is still there.
bool hear(const Descriptor& socket, std::string& heard) {
  char buffer[4096];
  while (true) {
    const ssize_t n = recv(socket.get(), buffer, sizeof buffer, 0);
    if (n <= 0) return n < 0 && (errno == EAGAIN || errno == EINTR);
    heard.append(buffer, static_cast<size_t>(n));
  }
}

/// Rank 0 of a job whose rank 1 has joined.
class PortTest : public JobTest {
 protected:
  PortTest() {
    member_.send(to_json(hello_of(place(1), "sha")));
    EXPECT_TRUE(becomes_true([&] {
      remote_ranks_.listen(interrupts_);
      return member_.receive().has_value();
    }));
  }
  /// Serves until the other side has closed the connection. Returns what the peer got.
  std::string heard_by(const Descriptor& peer) {
    std::string heard;
    EXPECT_TRUE(becomes_true([&] {
      remote_ranks_.listen(interrupts_);
      return !hear(peer, heard);
    })) << "rank 0 closes the connection";
    return heard;
  }
  void expect_the_member_is_served() {
    EXPECT_THAT(remote_ranks_.missing(2), ::testing::IsEmpty());
    RunSpec spec;
    spec.train.world_size = 3;
    const auto rank = remote_ranks_.start(1, {.id = "r", .spec = spec}, "127.0.0.1:1", folder_.path());
    EXPECT_EQ(next(member_).value("type", ""), "start");
    EXPECT_FALSE(rank->poll());
    Json end = to_json(RankEnd{.log = "mine"});
    end["run"] = remote_runs_ += 1;
    member_.send(end);
    std::optional<RankEnd> came;
    EXPECT_TRUE(becomes_true([&] { return (came = rank->poll()).has_value(); }));
    EXPECT_TRUE(came && came->lost.empty()) << (came ? came->lost : "");
  }
  std::string hello_line(int64_t rank) const { return to_json(hello_of(place(rank), "sha")).dump() + "\n"; }
  static constexpr size_t kGreeting = 40, kProof = 32;

  Interrupts interrupts_;
  RemoteRanks remote_ranks_{place(0), "sha", secret_};
  Channel member_ = connected();
  int64_t remote_runs_ = 0;
};

TEST_F(PortTest, HelloWithoutAProofIsNotRead) {
  for (const std::string& text :
       {hello_line(2), std::string("GET / HTTP/1.1\r\n\r\n"), std::string(100'000, 'x'), std::string("\n"),
        Handshake(Handshake::End::other, secret_).greeting() + std::string(kProof, 'x') + hello_line(2),
        Handshake(Handshake::End::other, secret_).greeting() + hello_line(2)}) {
    const Descriptor peer = socket();
    say(peer, text);
    const std::string heard = heard_by(peer);
    EXPECT_LE(heard.size(), kGreeting + kProof);
    if (heard.size() > kGreeting) {
      EXPECT_EQ(heard.substr(kGreeting), std::string(kProof, '\0'));
    }
  }
  EXPECT_THAT(remote_ranks_.missing(3), HasSubstr("rank 2: it has not joined"));
  expect_the_member_is_served();
}

TEST_F(PortTest, AnotherSecretIsRefusedAndReported) {
  Channel peer = connected(JobSecret{"the secret of another user"});
  peer.send(to_json(hello_of(place(2), "sha")));
  EXPECT_THROW(
      while (true) {
        remote_ranks_.listen(interrupts_);
        peer.receive();
      },
      WrongSecret);
  remote_ranks_.join(0.05, interrupts_);
  const auto notes = remote_ranks_.take_notes();
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_THAT(notes[0], HasSubstr("rank 2 of 3 did not join"));
  EXPECT_THAT(notes[0], HasSubstr("it has another secret"));
  EXPECT_THAT(notes[0], HasSubstr("OPTRUSH_JOB_SECRET"));
  expect_the_member_is_served();
}

TEST_F(PortTest, RecordedMemberIsNotLetInAgain) {
  // A member joins through the peer, which records all that it sends.
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
  const Descriptor near(ends[0]);
  Descriptor port = socket();
  std::string recorded;
  {
    Channel second(Descriptor(ends[1]), testing::kMaxMessageBytes, Handshake(Handshake::End::other, secret_));
    second.send(to_json(hello_of(place(2), "sha")));
    std::string welcome;
    EXPECT_TRUE(becomes_true([&] {
      std::string there, here;
      hear(near, there);
      recorded += there;
      say(port, there);
      remote_ranks_.listen(interrupts_);
      hear(port, here);
      say(near, here);
      if (const auto message = second.receive()) welcome = message->value("type", "");
      return !welcome.empty();
    }));
    EXPECT_EQ(welcome, "welcome");
  }
  port.close();
  EXPECT_TRUE(becomes_true([&] {
    remote_ranks_.listen(interrupts_);
    return !remote_ranks_.missing(3).empty();
  })) << "the true member has left";
  const Descriptor peer = socket();
  say(peer, recorded);
  EXPECT_EQ(heard_by(peer).substr(kGreeting), std::string(kProof, '\0'));
  EXPECT_THAT(remote_ranks_.missing(3), HasSubstr("rank 2"));
  expect_the_member_is_served();
}

TEST_F(PortTest, LineOfAnotherPeerInAConnectionEndsThatConnection) {
  const auto rank = remote_ranks_.start(1, {.id = "r"}, "127.0.0.1:1", folder_.path());
  EXPECT_EQ(next(member_).value("type", ""), "start");
  const int copy = dup(member_.descriptor());
  const Descriptor wire(copy);
  say(wire, R"({"type":"signal","number":15})"
            "\n");
  std::optional<RankEnd> end;
  EXPECT_TRUE(becomes_true([&] {
    remote_ranks_.listen(interrupts_);
    return (end = rank->poll()).has_value();
  }));
  EXPECT_THAT(end.value().lost, HasSubstr("a line that the other process did not send"));
  EXPECT_EQ(interrupts_.signal(), 0) << "the line has no effect";
}

TEST_F(PortTest, SlowPeerIsNotWaitedFor) {
  const Descriptor slow = socket(), silent = socket();
  const std::string greeting = Handshake(Handshake::End::other, secret_).greeting();
  const auto start = std::chrono::steady_clock::now();
  std::string heard;
  size_t said = 0;
  EXPECT_TRUE(becomes_true([&] {
    if (std::chrono::steady_clock::now() - start > milliseconds(500) * said)
      say(slow, greeting.substr(said++, 1));
    remote_ranks_.listen(interrupts_);
    return !hear(slow, heard) && !hear(silent, heard);
  }));
  EXPECT_LT(said, greeting.size()) << "it is closed before it has sent its greeting";
  expect_the_member_is_served();
}

size_t open_descriptors() {
  return static_cast<size_t>(
      std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator()));
}

TEST_F(PortTest, TenThousandPeersNeitherUseUpDescriptorsNorKeepAMemberOut) {
  constexpr size_t kAll = 10'000, kAtOnce = 200, kMostServed = 128;
  const size_t before = open_descriptors();
  const linger reset{1, 0};  // no connection stays behind in TIME_WAIT
  std::deque<Descriptor> peers;
  std::optional<Channel> second;
  bool joined = false;
  size_t most = 0;
  for (size_t made = 0; made < kAll; ++made) {
    peers.push_back(socket());
    ASSERT_GE(peers.back().get(), 0);
    setsockopt(peers.back().get(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    // Some say nothing, some greet and wait, some speak another protocol.
    if (made % 3 == 1) say(peers.back(), Handshake(Handshake::End::other, secret_).greeting());
    if (made % 3 == 2) say(peers.back(), "\x16\x03\x01");
    if (peers.size() > kAtOnce) peers.pop_front();
    if (made == kAll / 2) {
      second.emplace(connected());
      second->send(to_json(hello_of(place(2), "sha")));
    }
    if (made % 50 == 0) {
      std::this_thread::sleep_for(milliseconds(3));
      remote_ranks_.listen(interrupts_);
      if (second && !joined) joined = second->receive().has_value();
      most = std::max(most, open_descriptors());
    }
  }
  EXPECT_TRUE(joined) << "a member joins while others connect";
  EXPECT_LE(most, before + kAtOnce + kMostServed + 10);
  expect_the_member_is_served();
}

/// An agent in a child process, and an unauthenticated program at the port of rank 0.
class FalseRank0Test : public JobTest {
 protected:
  FalseRank0Test() : listener_(listen_at(port_, true)) {
    setenv("FAKE_PID_FILE", (folder_ / "worker").c_str(), 1);
    child_ = fork();
    if (child_ != 0) return;
    listener_.close();
    try {
      run_rank_agent(place(1), "sha", testing::kFakeWorker, secret_);
    } catch (const Error& e) {
      write_file(folder_ / "error", e.what());
    }
    _exit(1);
  }
  ~FalseRank0Test() override {
    unsetenv("FAKE_PID_FILE");
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
  }
  Descriptor accepted() const {
    Descriptor socket;
    EXPECT_TRUE(becomes_true([&] { return (socket = accept_from(listener_)).get() >= 0; }));
    return socket;
  }
  static Json start_message() {
    RunSpec spec;
    spec.rung = "slow";
    spec.train.world_size = 3;
    return {{"type", "start"}, {"run", 1},        {"spec", to_json(spec)}, {"store", "127.0.0.1:1"},
            {"state", "/tmp"}, {"local_size", 3}, {"from_step", nullptr}};
  }
  std::string error() const {
    EXPECT_TRUE(becomes_true([&] { return fs::exists(folder_ / "error"); }));
    return read_file(folder_ / "error");
  }
  void expect_nothing_was_started() const { EXPECT_FALSE(fs::exists(folder_ / "worker")); }

  Descriptor listener_;
  pid_t child_ = -1;
};

TEST_F(FalseRank0Test, SpecWithoutAProofIsNotRead) {
  const Descriptor agent = accepted();
  say(agent, Handshake(Handshake::End::rank_0, secret_).greeting() + std::string(32, 'x') +
                 Json{{"type", "welcome"}}.dump() + "\n" + start_message().dump() + "\n");
  EXPECT_THAT(error(), HasSubstr("is not rank 0 of this job: it has another secret"));
  EXPECT_THAT(error(), HasSubstr("OPTRUSH_JOB_SECRET"));
  expect_nothing_was_started();
}

TEST_F(FalseRank0Test, AnotherSecretIsRefused) {
  Channel rank_0(accepted(), testing::kMaxMessageBytes,
                 Handshake(Handshake::End::rank_0, JobSecret{"another secret of a test"}));
  rank_0.send({{"type", "welcome"}});
  rank_0.send(start_message());
  EXPECT_THROW(while (rank_0.is_open()) rank_0.receive(), WrongSecret);
  EXPECT_THAT(error(), HasSubstr("another secret"));
  expect_nothing_was_started();
}

TEST_F(FalseRank0Test, AgentTriesAgainIfRank0HasNoRoom) {
  for (int turn = 0; turn < 3; ++turn) accepted();  // and closed at once
  Channel rank_0(accepted(), testing::kMaxMessageBytes, Handshake(Handshake::End::rank_0, secret_));
  EXPECT_EQ(next(rank_0).value("type", ""), "hello");
}

TEST_F(FalseRank0Test, SpecInTheMiddleStartsNothing) {
  Descriptor socket = accepted();
  const Descriptor wire(dup(socket.get()));
  Channel rank_0(std::move(socket), testing::kMaxMessageBytes, Handshake(Handshake::End::rank_0, secret_));
  EXPECT_EQ(next(rank_0).value("type", ""), "hello");
  rank_0.send({{"type", "welcome"}});
  say(wire, start_message().dump() + "\n");
  EXPECT_THAT(error(), HasSubstr("a line that the other process did not send"));
  expect_nothing_was_started();
}
}  // namespace
}  // namespace optrush
