#include "launch/ranks/remote_ranks.h"

#include <algorithm>
#include <thread>

#include "base/files.h"
#include "base/log.h"
#include "base/seconds_since.h"
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
constexpr size_t kMostBeforeHello = 4096, kMostOfPeer = 64U << 20;
// Pending connections must not use up the descriptors of this process, nor keep members of the job from
// joining.
constexpr size_t kMostPending = 128;
constexpr std::chrono::seconds kTimeForHello{3}, kTimeForGoodbye{2};
constexpr milliseconds kBetweenPumps{2};

/// Listens at the first free port of the job, which `here` then has alone.
Descriptor listen_for_job(Launched& here) {
  std::string problems;
  for (const uint16_t port : here.ports) try {
      Descriptor listener = listen_at(port, here.local_size == here.size);
      here.ports = {port};
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
class RemoteRank : public RunningRank {
 public:
  RemoteRank(RemoteRanks& ranks, int64_t rank, int64_t run, fs::path folder)
      : RunningRank(rank_name(rank, ranks.peers_.at(rank).hello.host)),
        ranks_(ranks),
        peer_(ranks.peers_.at(rank)),
        run_(run),
        folder_(std::move(folder)) {}
  ~RemoteRank() override {
    // It may still have a worker, which must not meet the next run.
    if (!ended_ && peer_.has_joined()) peer_.drop("it did not end its worker");
  }

  std::optional<RankEnd> poll() override {
    if (ended_) return std::nullopt;
    ranks_.pump();
    const bool is_lost = !peer_.has_joined() || peer_.run != run_;
    if (!is_lost && !peer_.end) return std::nullopt;
    ended_ = true;
    if (is_lost) return lost();
    keep(*peer_.end);
    return std::exchange(peer_.end, std::nullopt);
  }
  void terminate() override { request("terminate"); }
  void kill() override { request("kill"); }

 private:
  /// The end of a lost rank, with its last known state.
  RankEnd lost() const {
    if (peer_.has_joined()) return {.lost = "another process has replaced it"};
    if (peer_.run != run_) return {.lost = peer_.lost};
    const Seen& seen = peer_.seen;
    if (!seen.log.empty()) write_file(folder_ / "log.txt", seen.log);
    return {.state = {.phase = seen.phase, .steps = seen.steps},
            .log = last_lines_of(seen.log),
            .lost = peer_.lost};
  }
  void request(const char* what) {
    if (peer_.has_joined()) peer_.channel.send({{"type", what}});
  }
  /// Writes its log and result here, because the files on its machine are temporary.
  void keep(const RankEnd& end) const {
    write_file(folder_ / "log.txt", end.log + "\n");
    if (end.result) write_json(folder_ / "result.json", to_json(*end.result));
  }

  RemoteRanks& ranks_;
  RemoteRanks::Peer& peer_;
  int64_t run_;
  fs::path folder_;
  bool ended_ = false;
};

void RemoteRanks::Peer::drop(const std::string& why) {
  lost = why;
  channel.close();
}

RemoteRanks::RemoteRanks(const Launched& here, const std::string& script_sha256, JobSecret secret)
    : here_(here),
      own_(hello_of(here, script_sha256)),
      secret_(std::move(secret)),
      listener_(listen_for_job(here_)) {}

RemoteRanks::~RemoteRanks() {
  if (!dismissed_) dismiss({.code = 1, .reason = "it ended unexpectedly"});
}

void RemoteRanks::dismiss(const ClosingMessage& closing) {
  dismissed_ = true;
  // If one process fails, a launcher ends the others by a signal. This process still ends with its own exit
  // code.
  hold_signals_until_exit();
  for (auto& [rank, peer] : peers_)
    if (peer.has_joined()) peer.channel.send(to_json(closing, "done"));
  // If this process ends first, a launcher may end the others by a signal.
  const auto start = Clock::now();
  const auto is_there = [](const auto& peer) { return peer.second.has_joined(); };
  while (std::ranges::any_of(peers_, is_there) && Clock::now() - start < kTimeForGoodbye) {
    pump();
    std::this_thread::sleep_for(milliseconds(10));
  }
  remove_abandoned_folders();  // folders of processes that were killed on this machine
}

void RemoteRanks::listen(Interrupts& interrupts) {
  pump();
  if (asked_to_stop_ != 0) interrupts.forward(asked_to_stop_, who_was_asked_);
}

void RemoteRanks::join(double limit_s, Interrupts& interrupts) {
  const auto start = Clock::now();
  const auto absent = [&] {
    std::vector<std::string> ranks;
    for (int64_t rank = 1; rank < here_.size; ++rank)
      if (!peers_.contains(rank)) ranks.push_back(std::to_string(rank));
    return ranks;
  };
  for (listen(interrupts); !absent().empty(); listen(interrupts)) {
    if (interrupts.signal() != 0 || interrupts.wait(milliseconds(20))) return;
    if (seconds_since(start) < limit_s) continue;
    const auto ranks = absent();
    const std::string who = ranks.size() > 1 ? "ranks " + optrush::join(ranks) : "rank " + ranks.front();
    const std::string why =
        "did not join rank 0 at " + here_.address + ":" + std::to_string(here_.ports.front());
    notes_.push_back(
        who + " of " + std::to_string(here_.size) + " " + why +
        (foreign_.empty() ? "" : "\na connection from another process was refused: " + foreign_) + "\n" +
        advice_on_joining(here_));
    for (const auto& rank : ranks) peers_[std::stoll(rank)].lost = "it " + why;
    return;
  }
}

std::string RemoteRanks::missing(int64_t ranks) {
  pump();
  std::vector<std::string> all;
  for (int64_t rank = 1; rank < ranks; ++rank)
    if (const auto why = why_missing(rank); !why.empty())
      all.push_back("rank " + std::to_string(rank) + ": " + why);
  return optrush::join(all, "\n");
}

std::string RemoteRanks::why_missing(int64_t rank) const {
  const auto peer = peers_.find(rank);
  return peer == peers_.end() ? "it has not joined" : peer->second.lost;
}

std::unique_ptr<RunningRank> RemoteRanks::start(int64_t rank, const Job& job, const std::string& store,
                                                const fs::path& run_folder) {
  if (const auto why = why_missing(rank); !why.empty())
    throw Error(ErrorCode::rank_lost, "rank " + std::to_string(rank) + ": " + why);
  Peer& peer = peers_.at(rank);
  peer.run = ++runs_;
  peer.end.reset();
  peer.seen = {};
  peer.channel.send({{"type", "start"},
                     {"run", peer.run},
                     {"spec", to_json(job.spec)},
                     {"store", store},
                     {"state", fs::absolute(state_folder(run_folder)).string()},
                     {"from_step", job.from_step ? Json(*job.from_step) : Json()},
                     {"local_size", local_size(rank, job.spec.train.world_size)}});
  return std::make_unique<RemoteRank>(*this, rank, peer.run, rank_folder(run_folder, rank));
}

const Hello* RemoteRanks::hello_of_rank(int64_t rank) const {
  if (rank == 0) return &own_;
  return why_missing(rank).empty() ? &peers_.at(rank).hello : nullptr;
}

int64_t RemoteRanks::local_size(int64_t rank, int64_t ranks) const {
  const Hello& one = *hello_of_rank(rank);
  int64_t together = 0;
  for (int64_t other = 0; other < ranks; ++other)
    if (const Hello* hello = hello_of_rank(other); hello != nullptr && hello->host == one.host) ++together;
  return std::max(one.local_rank + 1, std::min(together, one.local_size));
}

Json RemoteRanks::hosts() const {
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

void RemoteRanks::pump() {
  // Every rank of a run polls in turn; one call serves all.
  if (Clock::now() - pumped_ < kBetweenPumps) return;
  pumped_ = Clock::now();
  accept_pending();
  for (auto& pending : pending_) admit(pending);
  std::erase_if(pending_, [](const Pending& pending) { return !pending.channel.is_open(); });

  for (auto& [rank, peer] : peers_) try {
      while (peer.has_joined()) {
        const auto message = peer.channel.receive();
        if (!message) break;
        handle(rank, peer, *message);
      }
      if (peer.has_joined() && !peer.channel.is_open()) peer.drop("the connection to it was closed");
    } catch (const std::exception& e) {
      peer.drop(std::string("it sent an invalid message: ") + e.what());
    }
}

/// Accepts the connections that wait. If there are too many, the oldest that has sent nothing is closed, or
/// the oldest of all: a member speaks at once.
void RemoteRanks::accept_pending() {
  for (size_t accepted = 0; accepted < kMostPending; ++accepted) {
    Descriptor socket = accept_from(listener_);
    if (socket.get() < 0) return;
    if (pending_.size() == kMostPending) {
      const auto silent =
          std::ranges::find_if(pending_, [](const Pending& pending) { return pending.channel.is_silent(); });
      pending_.erase(silent == pending_.end() ? pending_.begin() : silent);
    }
    pending_.push_back(
        {Channel(std::move(socket), kMostBeforeHello, Handshake(Handshake::End::rank_0, secret_)),
         Clock::now()});
    admit(pending_.back());
    if (!pending_.back().channel.is_open()) pending_.pop_back();
  }
}

void RemoteRanks::admit(Pending& pending) {
  std::optional<Hello> hello;
  try {
    const auto message = pending.channel.receive();
    if (!message) {
      if (Clock::now() - pending.since > kTimeForHello) pending.channel.close();
      return;
    }
    if (message->at("type") == "hello") hello = hello_from_json(*message);
  } catch (const WrongSecret& e) {
    foreign_ = e.what();
  } catch (const std::exception& e) {
    log::debug(std::string("ignored at the control port: ") + e.what());
  }
  if (!hello) return pending.channel.close();
  std::string reason = refusal(own_, *hello);
  const bool has_joined = why_missing(hello->rank).empty();
  if (reason.empty() && has_joined)
    reason = "rank " + std::to_string(hello->rank) + " has already joined, on host " +
             peers_.at(hello->rank).hello.host;
  if (!reason.empty()) {
    const std::string said = rank_name(hello->rank, hello->host) + " was refused: " + reason;
    // Ranks of other jobs find their rank 0 at another port.
    const bool other_job = hello->job != own_.job;
    if (other_job)
      foreign_ = said;
    else
      notes_.push_back(said);
    if (!other_job && !has_joined) peers_[hello->rank] = {.lost = "it was refused: " + reason};
    pending.channel.send({{"type", "refused"}, {"reason", reason}, {"other_job", other_job}});
    return pending.channel.close();
  }
  pending.channel.allow(kMostOfPeer);
  pending.channel.send({{"type", "welcome"}});
  peers_[hello->rank] = {.channel = std::exchange(pending.channel, Channel(Descriptor(), 0)),
                         .hello = *hello};
}

void RemoteRanks::handle(int64_t rank, Peer& peer, const Json& message) {
  const std::string type = message.at("type"), name = rank_name(rank, peer.hello.host);
  if (type == "end") {
    if (message.at("run") == peer.run) peer.end = rank_end_from_json(message);
    log::debug(name + " has ended its worker");
  } else if (type == "seen") {
    if (message.at("run") == peer.run) peer.seen = seen_from_json(message);
  } else if (type == "signal") {
    if (asked_to_stop_ == 0) who_was_asked_ = name;
    asked_to_stop_ = stop_signal_from_json(message);
  } else if (type == "leave") {
    const ClosingMessage closing = closing_message_from_json(message);
    peer.drop("it left with exit code " + std::to_string(closing.code) + ": " + closing.reason);
  } else {
    throw Error(ErrorCode::network, "the message has an unknown type");
  }
}
}  // namespace optrush
