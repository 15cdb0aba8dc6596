#include "distributed/rendezvous.h"

#include <fcntl.h>
#include <torch/csrc/distributed/c10d/error.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <map>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "base/peer_error.h"
#include "base/text.h"
#include "machine/environment.h"
#include "machine/socket.h"
#include "machine/visible_gpu.h"

namespace optrush {
namespace {
using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kNoTime{0}, kTimeToAnswer{2000};

std::string address(const Ranks& ranks) { return ranks.host + ":" + std::to_string(ranks.port); }

c10::intrusive_ptr<c10d::Store> open_store(const Ranks& ranks) {
  c10d::TCPStoreOptions options;
  options.port = ranks.port;
  options.isServer = ranks.rank == 0;
  options.numWorkers = static_cast<size_t>(ranks.size);
  options.waitWorkers = false;  // join() waits instead, and names missing ranks
  options.timeout = ranks.timeout;
  try {
    // The store has no password. If all ranks are on this machine, no other machine reaches it.
    if (options.isServer && ranks.host == kLoopback)
      options.masterListenFd = fcntl(listen_at(ranks.port, /*loopback_only=*/true).get(), F_DUPFD_CLOEXEC, 0);
    return c10::make_intrusive<c10d::TCPStore>(ranks.host, options);
  } catch (const std::exception& e) {
    const std::string text = first_line(e.what());
    const bool in_use =
        text.find("EADDRINUSE") != std::string::npos || text.find("already in use") != std::string::npos;
    if (ranks.rank == 0 && in_use)
      // The controller recognizes this system error and tries another port.
      throw Error(ErrorCode::network,
                  "port " + std::to_string(ranks.port) + " is in use on " + host_name() + " (EADDRINUSE)",
                  "stop the program that uses it, or set MASTER_PORT to a free port");
    if (ranks.rank == 0)
      throw Error(ErrorCode::network,
                  "rank 0 cannot listen at " + address(ranks) + " on " + host_name() + ": " + text,
                  "set MASTER_ADDR to an address of rank 0's machine");
    throw PeerError(PeerError::Cause::late,
                    "rank " + std::to_string(ranks.rank) + " on " + host_name() + " cannot reach rank 0 at " +
                        address(ranks) + ": " + text,
                    "check that MASTER_ADDR is rank 0's machine, that the firewall opens the port, and that "
                    "rank 0 was started");
  }
}

std::vector<uint8_t> bytes(const std::string& text) { return {text.begin(), text.end()}; }
std::string text(const std::vector<uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

/// Waits for a key until the deadline. Returns whether it arrived.
bool arrives(c10d::Store& store, const std::string& key, Clock::time_point deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
  try {
    store.wait({key}, std::max(left, std::chrono::milliseconds(1)));
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

std::string late(const Ranks& ranks, const std::string& missing, const std::string& key,
                 std::chrono::milliseconds limit) {
  return "rank " + missing + " of " + std::to_string(ranks.size) + " did not come within " +
         std::to_string(limit.count() / 1000) + " s (" + key + ")";
}

/// Rank 0's check of the other ranks; "" if they agree.
std::string verdict_on(c10d::Store& store, const Ranks& ranks, const std::string& identity) {
  const auto deadline = Clock::now() + ranks.timeout;
  std::vector<std::string> missing, others;
  for (int64_t rank = 1; rank < ranks.size; ++rank) {
    const std::string number = std::to_string(rank), key = "join/" + number;
    if (!arrives(store, key, deadline))
      missing.push_back(number);
    else if (const std::string said = text(store.get(key)); said != identity)
      others.push_back(number + " (" + said + ")");
  }
  if (!missing.empty())
    return "missing\nrank " + join(missing, ", rank ") + " of " + std::to_string(ranks.size) +
           " did not join within " + std::to_string(ranks.timeout.count() / 1000) + " s at " + address(ranks);
  if (!others.empty())
    return "other\nrank " + join(others, ", rank ") + " runs a different script or version than rank 0 (" +
           identity + ")";
  return "";
}

void join_all(c10d::Store& store, const Ranks& ranks, const std::string& identity) {
  std::string verdict;
  if (ranks.rank == 0) {
    verdict = verdict_on(store, ranks, identity);
    store.set("joined", bytes(verdict));
    if (!verdict.empty()) {
      // The store ends with this process, so wait until the other ranks have read the verdict.
      const auto deadline = Clock::now() + std::chrono::seconds(2);
      for (int64_t rank = 1; rank < ranks.size; ++rank)
        if (store.check({"join/" + std::to_string(rank)}))
          arrives(store, "read/" + std::to_string(rank), deadline);
    }
  } else {
    store.set("join/" + std::to_string(ranks.rank), bytes(identity));
    if (!arrives(store, "joined", Clock::now() + 2 * ranks.timeout))
      throw PeerError(PeerError::Cause::late, "rank 0 did not answer at " + address(ranks),
                      "read the log of rank 0");
    verdict = text(store.get("joined"));
    store.set("read/" + std::to_string(ranks.rank), bytes("read"));
  }
  if (verdict.empty()) return;
  const std::string what = verdict.substr(verdict.find('\n') + 1);
  if (verdict.starts_with("other"))
    throw Error(ErrorCode::wrong_ranks, what, "start the same script and version on every rank");
  throw PeerError(PeerError::Cause::late, what,
                  "read the logs of those ranks; check that they were started and can reach this address");
}

/// What the others learn from rank 0, which alone decides who is late: "" if all ranks were in time.
std::string outcome_at_rank_0(c10d::Store& store, const Ranks& ranks, const std::string& key,
                              std::chrono::milliseconds limit) {
  for (const std::string& next : {key + "/0", key + "/read"}) {
    // Rank 0 answers when its own time is over.
    const auto deadline = Clock::now() + limit + (next == key + "/0" ? kNoTime : kTimeToAnswer);
    if (arrives(store, next, deadline)) continue;
    return Clock::now() < deadline ? "" : late(ranks, "0", key, limit);  // "": it has ended
  }
  try {
    return text(store.get(key + "/read"));
  } catch (const std::exception&) {
    return "";  // rank 0 has ended since it wrote the key
  }
}
}  // namespace

c10::intrusive_ptr<c10d::Store> rendezvous(const Ranks& ranks, const std::string& identity) {
  auto store = open_store(ranks);
  join_all(*store, ranks, identity);
  return store;
}

int64_t ranks_of_one_gpu(c10d::Store& store, const Ranks& ranks) {
  if (ranks.gpu.empty()) return 1;
  const char* const key = "ranks of one GPU";
  const auto gpus = gather_texts(store, ranks, "gpu", ranks.gpu);
  if (ranks.rank != 0) {
    if (!arrives(store, key, Clock::now() + ranks.timeout))
      throw PeerError(PeerError::Cause::late, "rank 0 did not compare the ranks' GPUs",
                      "read the log of rank 0");
    return std::stoll(text(store.get(key)));
  }
  std::map<std::string, std::vector<std::string>> users;
  for (size_t rank = 0; rank < gpus.size(); ++rank)
    users[gpus[rank]].push_back("rank " + std::to_string(rank));
  const auto most = std::ranges::max_element(users, {}, [](const auto& gpu) { return gpu.second.size(); });
  store.set(key, bytes(std::to_string(most->second.size())));
  if (most->second.size() > 1 && !ranks_may_share_a_gpu())
    throw Skip(most->second[0] + " and " + most->second[1] + " use the same GPU (" + most->first +
                   "), but each rank needs a separate GPU",
               "lower train.world_size, start fewer ranks on a machine, or run with --device cpu; "
               "OPTRUSH_SHARE_GPU=1 allows it, for tests without speeds");
  return static_cast<int64_t>(most->second.size());
}

void let_ranks_share_a_gpu(const Ranks& ranks) {
  const auto set = [](const char* name, const std::string& value) {
    ::setenv(name, value.c_str(), /*overwrite=*/0);
  };
  // NCCL refuses two ranks of one host on one GPU. Ranks of different hosts may have the same one.
  set("NCCL_HOSTID", "optrush-" + std::to_string(ranks.rank));
  set("NCCL_MULTI_RANK_GPU_ENABLE", "1");  // required from NCCL 2.30 on, unknown before
  set("NCCL_NET", "Socket");
  set("NCCL_IB_DISABLE", "1");
  if (ranks.local_size == ranks.size) set("NCCL_SOCKET_IFNAME", "lo");
}

std::vector<std::string> gather_texts(c10d::Store& store, const Ranks& ranks, const std::string& key,
                                      const std::string& mine, std::chrono::milliseconds limit) {
  if (limit == kNoTime) limit = ranks.timeout;
  std::vector<std::string> all;
  std::string problem;
  try {
    store.set(key + "/" + std::to_string(ranks.rank), bytes(mine));
    if (ranks.rank != 0) {
      // No rank ends before rank 0, which serves the store, has read all texts.
      problem = outcome_at_rank_0(store, ranks, key, limit);
    } else {
      const auto deadline = Clock::now() + limit;
      std::vector<std::string> missing;
      for (int64_t rank = 0; rank < ranks.size; ++rank) {
        const std::string number = std::to_string(rank);
        if (arrives(store, key + "/" + number, deadline))
          all.push_back(text(store.get(key + "/" + number)));
        else
          missing.push_back(number);
      }
      if (!missing.empty()) problem = late(ranks, join(missing, ", rank "), key, limit);
      store.set(key + "/read", bytes(problem));
    }
  } catch (const std::exception& e) {
    throw PeerError(PeerError::Cause::gone,
                    "rank 0 at " + address(ranks) + " went away (" + key + "): " + first_line(e.what()),
                    "read the log of the rank that failed first");
  }
  if (!problem.empty())
    throw PeerError(PeerError::Cause::late, problem,
                    "read the log of that rank; set OPTRUSH_COLLECTIVE_TIMEOUT=SECONDS, or "
                    "OPTRUSH_STATE_TIMEOUT=SECONDS for a saved state, to wait longer");
  return all;
}
}  // namespace optrush
