#include "launch/ranks/followers.h"

#include <algorithm>
#include <thread>

#include "base/files.h"
#include "base/log.h"
#include "base/temporary_folder.h"
#include "base/text.h"
#include "launch/run/result.h"
#include "machine/socket.h"
#include "optrush/error.h"
#include "spec/spec_json.h"

namespace optrush {
namespace fs = std::filesystem;
using std::chrono::milliseconds;

namespace {
constexpr size_t kMostOfStranger = 4096, kMostOfFollower = 64U << 20;
// Strangers must not use up the descriptors of this process, nor keep members of the job from joining.
constexpr size_t kMostStrangers = 128;
constexpr std::chrono::seconds kTimeForHello{3}, kTimeForGoodbye{2};
constexpr milliseconds kBetweenPumps{2};

/// Listens at the first free port of the job and sets it in `here`.
Descriptor listen_for_job(Launched& here) {
  std::vector<uint16_t> ports = here.more_ports;
  ports.insert(ports.begin(), here.port);
  std::string problems;
  for (const uint16_t port : ports) try {
      Descriptor listener = listen_at(port, here.local_size == here.size);
      here.port = port;
      return listener;
    } catch (const Error& e) {
      problems += (problems.empty() ? "" : "\n") + e.message();
    }
  throw Error(ErrorCode::network, "rank 0 cannot listen for the other ranks: " + problems,
              "another job may use the port: set MASTER_PORT or OPTRUSH_CONTROL_PORT to a free port, in all "
              "processes");
}
}  // namespace

/// A rank whose worker runs under another process of the job.
class FollowingRank : public RunningRank {
 public:
  FollowingRank(Followers& followers, int64_t rank, int64_t run, fs::path folder)
      : followers_(followers),
        rank_(rank),
        run_(run),
        folder_(std::move(folder)),
        name_(rank_name(rank, followers.followers_.at(rank).hello.host)) {}
  ~FollowingRank() override {
    // It may still have a worker, which must not meet the next run.
    if (!ended_) followers_.drop(rank_, "it did not end its worker");
  }

  std::optional<RankEnd> poll() override {
    if (ended_) return std::nullopt;
    followers_.pump();
    const auto found = followers_.followers_.find(rank_);
    if (found == followers_.followers_.end() || found->second.run != run_) {
      ended_ = true;
      return lost();
    }
    auto& end = found->second.end;
    if (!end) return std::nullopt;
    ended_ = true;
    keep(*end);
    return std::exchange(end, std::nullopt);
  }
  void terminate() override { tell("terminate"); }
  void kill() override { tell("kill"); }
  std::string name() const override { return name_; }

 private:
  /// The end of a lost rank, with its last known state.
  RankEnd lost() const {
    const auto gone = followers_.gone_.find(rank_);
    if (gone == followers_.gone_.end()) return {.lost = "another process has replaced it"};
    RankEnd end{.lost = gone->second.why};
    if (gone->second.run != run_) return end;
    const Seen& seen = gone->second.seen;
    end.state.phase = seen.phase;
    end.state.steps = seen.steps;
    end.log = last_lines_of(seen.log);
    if (!seen.log.empty()) {
      fs::create_directories(folder_);
      write_file(folder_ / "log.txt", seen.log);
    }
    return end;
  }
  void tell(const char* what) {
    const auto found = followers_.followers_.find(rank_);
    if (found != followers_.followers_.end()) found->second.channel.send({{"type", what}});
  }
  /// Writes its log and result here, because the files on its machine are temporary.
  void keep(const RankEnd& end) const {
    fs::create_directories(folder_);
    write_file(folder_ / "log.txt", end.log + "\n");
    if (end.result) write_json(folder_ / "result.json", to_json(*end.result));
  }

  Followers& followers_;
  int64_t rank_, run_;
  fs::path folder_;
  std::string name_;
  bool ended_ = false;
};

Followers::Followers(const Launched& here, const std::string& script_sha256, JobSecret secret)
    : here_(here),
      own_(hello_of(here, script_sha256)),
      secret_(std::move(secret)),
      listener_(listen_for_job(here_)) {}

Followers::~Followers() {
  if (!dismissed_) dismiss({.code = 1, .reason = "it ended unexpectedly"});
}

void Followers::dismiss(const Farewell& farewell) {
  dismissed_ = true;
  // If one process fails, a launcher ends the others by a signal. This process still ends with its own exit
  // code.
  hold_signals_until_exit();
  for (auto& [rank, follower] : followers_) follower.channel.send(to_json(farewell, "done"));
  // If this process ends first, a launcher may end the others by a signal.
  const auto start = Clock::now();
  while (!followers_.empty() && Clock::now() - start < kTimeForGoodbye) {
    pump();
    std::this_thread::sleep_for(milliseconds(10));
  }
  remove_abandoned_folders();  // folders of processes that were killed on this machine
}

void Followers::listen(Interrupts& interrupts) {
  pump();
  if (asked_to_stop_ != 0) interrupts.hear(asked_to_stop_, who_was_asked_);
}

void Followers::join(double limit_s, Interrupts& interrupts) {
  const auto start = Clock::now();
  const auto absent = [&] {
    std::vector<std::string> ranks;
    for (int64_t rank = 1; rank < here_.size; ++rank)
      if (!followers_.contains(rank) && !gone_.contains(rank)) ranks.push_back(std::to_string(rank));
    return ranks;
  };
  for (listen(interrupts); !absent().empty(); listen(interrupts)) {
    if (interrupts.signal() != 0 || interrupts.wait(milliseconds(20))) return;
    if (Clock::now() - start < std::chrono::duration<double>(limit_s)) continue;
    const auto ranks = absent();
    const std::string who = ranks.size() > 1 ? "ranks " + optrush::join(ranks) : "rank " + ranks.front();
    notes_.push_back(
        who + " of " + std::to_string(here_.size) + " did not join rank 0 at " + control_address(here_) +
        (foreign_.empty() ? "" : "\na connection from another process was refused: " + foreign_) + "\n" +
        advice_on_joining(here_));
    for (const auto& rank : ranks)
      gone_[std::stoll(rank)] = {"it did not join rank 0 at " + control_address(here_)};
    return;
  }
}

std::string Followers::missing(int64_t ranks) {
  pump();
  std::vector<std::string> all;
  for (int64_t rank = 1; rank < ranks; ++rank)
    if (!followers_.contains(rank)) all.push_back("rank " + std::to_string(rank) + ": " + why_missing(rank));
  return optrush::join(all, "\n");
}

std::string Followers::why_missing(int64_t rank) const {
  const auto gone = gone_.find(rank);
  return gone == gone_.end() ? "it has not joined" : gone->second.why;
}

std::unique_ptr<RunningRank> Followers::start(int64_t rank, const Job& job, const std::string& store,
                                              const fs::path& run_folder) {
  const auto found = followers_.find(rank);
  if (found == followers_.end())
    throw Error(ErrorCode::rank_lost, "rank " + std::to_string(rank) + ": " + why_missing(rank));
  Follower& follower = found->second;
  follower.run = ++runs_;
  follower.end.reset();
  follower.seen = {};
  follower.channel.send({{"type", "start"},
                         {"run", follower.run},
                         {"spec", to_json(job.spec)},
                         {"store", store},
                         {"state", fs::absolute(state_folder(run_folder)).string()},
                         {"from_step", job.from_step ? Json(*job.from_step) : Json()},
                         {"local_size", local_size(rank, job.spec.train.world_size)}});
  return std::make_unique<FollowingRank>(*this, rank, follower.run, rank_folder(run_folder, rank));
}

const Hello* Followers::hello_of_rank(int64_t rank) const {
  if (rank == 0) return &own_;
  const auto found = followers_.find(rank);
  return found == followers_.end() ? nullptr : &found->second.hello;
}

int64_t Followers::local_size(int64_t rank, int64_t ranks) const {
  const Hello& one = *hello_of_rank(rank);
  int64_t together = 0;
  for (int64_t other = 0; other < ranks; ++other)
    if (const Hello* hello = hello_of_rank(other); hello != nullptr && hello->host == one.host) ++together;
  return std::max(one.local_rank + 1, std::min(together, one.local_size));
}

Json Followers::hosts() const {
  Json hosts = Json::array();
  std::map<std::string, size_t> place;
  for (int64_t rank = 0; rank < here_.size; ++rank) {
    const Hello* hello = hello_of_rank(rank);
    if (hello == nullptr) continue;
    const auto [at, first] = place.emplace(hello->host, hosts.size());
    if (first)
      hosts.push_back({{"name", hello->host},
                       {"ranks", Json::array()},
                       {"cpu", hello->hardware.cpu},
                       {"gpus", hello->hardware.gpus}});
    hosts[at->second]["ranks"].push_back(rank);
  }
  return hosts;
}

void Followers::pump() {
  // Every rank of a run polls in turn; one call serves all.
  if (Clock::now() - pumped_ < kBetweenPumps) return;
  pumped_ = Clock::now();
  accept_strangers();
  for (auto& stranger : strangers_) take(stranger);
  std::erase_if(strangers_, [](const Stranger& stranger) { return !stranger.channel.is_open(); });

  std::map<int64_t, std::string> lost;
  for (auto& [rank, follower] : followers_) try {
      while (const auto message = follower.channel.receive()) take(rank, follower, *message);
      if (!follower.left.empty())
        lost[rank] = follower.left;
      else if (!follower.channel.is_open())
        lost[rank] = "the connection to it was closed";
    } catch (const std::exception& e) {
      lost[rank] = std::string("it sent an invalid message: ") + e.what();
    }
  for (const auto& [rank, why] : lost) drop(rank, why);
}

/// Accepts the connections that wait. If there are too many, the oldest that has sent nothing is closed, or
/// the oldest of all: a member speaks at once.
void Followers::accept_strangers() {
  for (size_t taken = 0; taken < kMostStrangers; ++taken) {
    Descriptor socket = accept_from(listener_);
    if (socket.get() < 0) return;
    if (strangers_.size() == kMostStrangers) {
      const auto silent = std::ranges::find_if(
          strangers_, [](const Stranger& stranger) { return stranger.channel.is_silent(); });
      strangers_.erase(silent == strangers_.end() ? strangers_.begin() : silent);
    }
    strangers_.push_back(
        {Channel(std::move(socket), kMostOfStranger, Handshake(Handshake::End::rank_0, secret_)),
         Clock::now()});
    take(strangers_.back());
    if (!strangers_.back().channel.is_open()) strangers_.pop_back();
  }
}

void Followers::take(Stranger& stranger) {
  std::optional<Hello> hello;
  try {
    const auto message = stranger.channel.receive();
    if (!message) {
      if (Clock::now() - stranger.since > kTimeForHello) stranger.channel.close();
      return;
    }
    if (message->at("type") == "hello") hello = hello_from_json(*message);
  } catch (const WrongSecret& e) {
    foreign_ = e.what();
  } catch (const std::exception& e) {
    log::debug(std::string("ignored at the control port: ") + e.what());
  }
  if (!hello) return stranger.channel.close();
  std::string reason = refusal(own_, *hello);
  if (reason.empty() && followers_.contains(hello->rank))
    reason = "rank " + std::to_string(hello->rank) + " has already joined, on host " +
             followers_.at(hello->rank).hello.host;
  if (!reason.empty()) {
    const std::string said = rank_name(hello->rank, hello->host) + " was refused: " + reason;
    // Ranks of other jobs find their rank 0 at another port.
    const bool other_job = hello->job != own_.job;
    if (other_job)
      foreign_ = said;
    else
      notes_.push_back(said);
    if (!other_job && !followers_.contains(hello->rank)) gone_[hello->rank] = {"it was refused: " + reason};
    stranger.channel.send({{"type", "refused"}, {"reason", reason}, {"other_job", other_job}});
    return stranger.channel.close();
  }
  stranger.channel.allow(kMostOfFollower);
  stranger.channel.send({{"type", "welcome"}});
  gone_.erase(hello->rank);
  followers_.emplace(hello->rank,
                     Follower{std::exchange(stranger.channel, Channel(Descriptor(), 0)), *hello});
}

void Followers::take(int64_t rank, Follower& follower, const Json& message) {
  const std::string type = message.at("type"), name = rank_name(rank, follower.hello.host);
  if (type == "end") {
    if (message.at("run") == follower.run) follower.end = rank_end_from_json(message);
    log::debug(name + " has ended its worker");
  } else if (type == "seen") {
    if (message.at("run") == follower.run) follower.seen = seen_from_json(message);
  } else if (type == "signal") {
    if (asked_to_stop_ == 0) who_was_asked_ = name;
    asked_to_stop_ = stop_signal_from_json(message);
  } else if (type == "leave") {
    const Farewell farewell = farewell_from_json(message);
    follower.left = "it left with exit code " + std::to_string(farewell.code) + ": " + farewell.reason;
  } else {
    throw Error(ErrorCode::network, "the message has an unknown type");
  }
}

void Followers::drop(int64_t rank, const std::string& why) {
  const auto found = followers_.find(rank);
  if (found == followers_.end()) return;
  gone_[rank] = {why, found->second.run, std::move(found->second.seen)};
  followers_.erase(found);
}
}  // namespace optrush
