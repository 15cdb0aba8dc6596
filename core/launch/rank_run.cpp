#include "launch/rank_run.h"

#include <algorithm>

#include "base/collective_timeout.h"
#include "base/cores.h"
#include "launch/conclude_ranks.h"
#include "launch/socket.h"

namespace optrush {
namespace fs = std::filesystem;

namespace {
constexpr std::chrono::milliseconds kPeriod{50};
constexpr const char* kLoopback = "127.0.0.1";

/// Whether the process that was to serve the store found its port taken: another program was given it between
/// our choice and its start.
bool port_was_taken(const RankEnd& server) {
  const std::string said = server.result.is_object() ? server.result.value("reason", "") : server.log;
  return said.find("EADDRINUSE") != std::string::npos ||
         said.find("ddress already in use") != std::string::npos;
}
}  // namespace

RankLimits limits_of(const RunSpec& spec) {
  RankLimits limits{.timeout_s = spec.timeout_s};
  limits.linger_s = std::max(limits.linger_s, static_cast<double>(collective_timeout().count()));
  return limits;
}

RankRun::RankRun(fs::path worker, int64_t gpus, Followers* followers)
    : worker_(std::move(worker)), gpus_(gpus), followers_(followers) {}

std::optional<BadEnd> RankRun::obstacle(const RunSpec& spec) const {
  const int64_t ranks = spec.train.world_size;
  const std::string takes = "it takes " + std::to_string(ranks);
  if (followers_ != nullptr) {
    const Launched& here = followers_->here();
    if (ranks > here.size)
      return BadEnd{"skipped",
                    takes + " ranks, and " + here.launcher + " started " + std::to_string(here.size)};
    if (const auto missing = followers_->missing(ranks); !missing.empty()) return BadEnd{"failed", missing};
    return std::nullopt;
  }
  const bool on_gpus = spec.device == "cuda" || (spec.device == "auto" && gpus_ > 0);
  if (on_gpus && ranks > gpus_)
    return BadEnd{"skipped", takes + " GPUs, one for each rank, and this machine has " +
                                 std::to_string(gpus_) +
                                 "\nrun it with --device cpu, or on several machines"};
  return std::nullopt;
}

std::optional<Json> RankRun::run(const Job& job, const fs::path& folder, Interrupts& interrupts,
                                 const std::function<void()>& tick) const {
  const RankLimits limits = limits_of(job.spec);
  RanksEnd end;
  for (const bool again : {true, false}) {
    auto ranks = start(job, folder);
    end = watch_ranks(ranks, limits, interrupts, tick, kPeriod);
    if (end.kind == RanksEnd::Kind::interrupted) return std::nullopt;
    if (end.kind == RanksEnd::Kind::ok || !again || !port_was_taken(end.ends.front())) break;
    fs::remove_all(folder / "ranks");
  }
  return conclude_ranks(folder, end, job, limits);
}

std::vector<std::unique_ptr<RunningRank>> RankRun::start(const Job& job, const fs::path& folder) const {
  const int64_t size = job.spec.train.world_size;
  const std::string host = followers_ == nullptr ? kLoopback : followers_->here().address;
  const std::string store = host + ":" + std::to_string(free_port());
  std::vector<std::unique_ptr<RunningRank>> ranks;
  for (int64_t rank = 0; rank < size; ++rank)
    if (rank == 0 || followers_ == nullptr)
      ranks.push_back(start_here(rank, job, folder, store));
    else
      ranks.push_back(followers_->start(rank, size, job.spec, store, rank_folder(folder, rank)));
  return ranks;
}

std::unique_ptr<RunningRank> RankRun::start_here(int64_t rank, const Job& job, const fs::path& folder,
                                                 const std::string& store) const {
  const int64_t size = job.spec.train.world_size, own = usable_cores();
  RankPlace place{rank, rank, size, share_of_cores(size, own, own)};
  if (followers_ != nullptr) {
    place.local_rank = followers_->here().local_rank;
    place.local_size = followers_->local_size(rank, size);
    place.cores = share_of_cores(place.local_size, own, cores_of_parent());
  }
  return std::make_unique<LocalRank>(worker_, folder / "spec.json", rank_folder(folder, rank), store, place,
                                     job.spec);
}
}  // namespace optrush
