#include "rank_pool.h"

#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <iostream>
#include <stdexcept>

#include "connected_ranks.h"
#include "measure/gpus.h"
#include "optrush/error.h"
#include "support/test_program.h"

namespace optrush::testing {
namespace {
constexpr const char* kVariable = "OPTRUSH_TEST_RANK_SOCKET";
constexpr int kSkipped = 77;  // for ctest
/// Cases that compare values with one process, and not the memory or the traffic of a CPU.
constexpr const char* kComparedOnAGpu =
    "*EqualsOneProcess*:*EqualOneProcess*:*ContinuesOnOtherRanks:*TrainAsOneProcess*:Groups.EveryCollective*:"
    "*UseTheWholeModel";

void write_line(int socket, const std::string& text) {
  const std::string line = text + "\n";
  for (size_t at = 0; at < line.size();) {
    const ssize_t sent = ::send(socket, line.data() + at, line.size() - at, MSG_NOSIGNAL);
    if (sent <= 0) throw std::runtime_error("the other end of a rank's socket is gone");
    at += static_cast<size_t>(sent);
  }
}

/// Reads a line. Empty if the other end is closed or after `milliseconds`.
std::string read_line(int socket, std::string& received, int milliseconds) {
  for (;;) {
    if (const size_t end = received.find('\n'); end != std::string::npos) {
      std::string line = received.substr(0, end);
      received.erase(0, end + 1);
      return line;
    }
    pollfd waiting{socket, POLLIN, 0};
    if (::poll(&waiting, 1, milliseconds) <= 0) return {};
    char buffer[4096];
    const ssize_t size = ::recv(socket, buffer, sizeof buffer, 0);
    if (size <= 0) return {};
    received.append(buffer, static_cast<size_t>(size));
  }
}

RankJobs& jobs() {
  static RankJobs jobs;
  return jobs;
}

int play_rank(int socket) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // Gloo's thread polls in a loop while another thread holds the lock of a connection. With more ranks than
  // cores, a rank that wakes up often preempts the holder, and the loop takes 40 % of the CPU time. A batch
  // process does not preempt others when it wakes up.
  const sched_param any{};
  ::sched_setscheduler(0, SCHED_BATCH, &any);
  std::string received;
  for (;;) {
    const std::string line = read_line(socket, received, -1);
    if (line.empty()) return 0;
    const Json order = Json::parse(line);
    Json answer;
    try {
      Ranks ranks{.rank = order.at("rank"),
                  .size = order.at("size"),
                  .local_rank = order.at("rank"),
                  .local_size = order.at("size")};
      ranks.meet_at("127.0.0.1:" + std::to_string(order.at("port").get<int>()));
      answer = jobs().at(order.at("job"))(ranks, order.at("arguments"));
    } catch (const Error& e) {
      answer = {{"error", e.what()}, {"code", to_string(e.code())}};
    } catch (const std::exception& e) {
      answer = {{"error", e.what()}, {"code", to_string(ErrorCode::internal)}};
    }
    write_line(socket, answer.dump());
  }
}
}  // namespace

void RankPool::start_one() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    throw std::runtime_error("no socket pair");
  std::vector<std::string> environment = {"OMP_NUM_THREADS=1", "OMP_WAIT_POLICY=passive",
                                          std::string(kVariable) + "=" + std::to_string(ends[1])};
  for (char** variable = environ; *variable != nullptr; ++variable) environment.emplace_back(*variable);
  std::vector<char*> pointers;
  for (auto& variable : environment) pointers.push_back(variable.data());
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], ends[1]);  // stays open over exec
  std::string self = "/proc/self/exe";
  char* arguments[] = {self.data(), nullptr};
  Rank rank;
  if (::posix_spawn(&rank.pid, self.c_str(), &actions, nullptr, arguments, pointers.data()) != 0)
    throw std::runtime_error("a rank can't be started");
  posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  rank.socket = ends[0];
  ranks_.push_back(rank);
}

RankPool::~RankPool() {
  for (Rank& rank : ranks_) {
    ::close(rank.socket);
    ::kill(rank.pid, SIGKILL);
    ::waitpid(rank.pid, nullptr, 0);
  }
}

std::vector<Json> RankPool::run(const std::string& job, int64_t size, const Json& arguments) {
  while (static_cast<int64_t>(ranks_.size()) < size) start_one();
  const uint16_t port = free_port();
  for (int64_t rank = 0; rank < size; ++rank)
    write_line(ranks_[static_cast<size_t>(rank)].socket,
               Json({{"job", job}, {"rank", rank}, {"size", size}, {"port", port}, {"arguments", arguments}})
                   .dump());
  std::vector<Json> answers;
  for (int64_t rank = 0; rank < size; ++rank)
    answers.push_back(Json::parse(answer_of(ranks_[static_cast<size_t>(rank)])));
  return answers;
}

std::string RankPool::answer_of(Rank& rank) {
  std::string line = read_line(rank.socket, rank.received, static_cast<int>(longest_.count()));
  if (line.empty()) throw std::runtime_error("rank process " + std::to_string(rank.pid) + " gave no answer");
  return line;
}

RankPool& pool() {
  static RankPool pool;
  return pool;
}

bool add_jobs(const RankJobs& added) {
  for (const auto& [name, job] : added)
    if (!jobs().emplace(name, job).second) throw std::logic_error("two jobs of ranks are named " + name);
  return true;
}

int main_of_ranks(int argc, char** argv) {
  if (const char* socket = std::getenv(kVariable)) std::quick_exit(play_rank(std::atoi(socket)));
  if (test_device() == "cuda") {
    if (const auto& cuda = load_cuda(); !cuda) {
      std::cout << "no CUDA device: " << cuda.reason << '\n';
      return kSkipped;
    }
    ::setenv("OPTRUSH_SHARE_GPU", "1", /*overwrite=*/0);
    ::testing::GTEST_FLAG(filter) = kComparedOnAGpu;  // a filter of the command line replaces it
  }
  return run_test_program(argc, argv);
}

namespace {
constexpr int kFirstPort = 10000, kBlocks = 150, kPortsOfBlock = 100;  // below the system's ephemeral ports

/// A socket that is bound to a port of this machine; -1 if the port is in use. `again`: connections that have
/// ended do not count as a use, as for the socket of a store.
int bound_socket(int port, bool again) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int reuse = again ? 1 : 0;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof reuse);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  if (::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0) return fd;
  ::close(fd);
  return -1;
}

/// The first port of a block that only this process uses: the port stays bound until the process ends.
int reserve_block() {
  for (int i = 0; i < kBlocks; ++i) {
    const int first = kFirstPort + (::getpid() + i) % kBlocks * kPortsOfBlock;
    if (bound_socket(first, /*again=*/false) >= 0) return first;
  }
  throw std::runtime_error("no free block of ports");
}
}  // namespace

uint16_t free_port() {
  static const int first = reserve_block();
  static int next = 0;
  for (int tries = 1; tries < kPortsOfBlock; ++tries) {
    const int port = first + 1 + next++ % (kPortsOfBlock - 1);
    if (const int fd = bound_socket(port, /*again=*/true); fd >= 0) {
      ::close(fd);
      return static_cast<uint16_t>(port);
    }
  }
  throw std::runtime_error("no free port");
}
}  // namespace optrush::testing
