#include "launch/ranks/rank_run.h"

#include <algorithm>

#include "launch/ranks/ranks.h"
#include "machine/cores.h"
#include "machine/environment.h"
#include "machine/socket.h"
#include "machine/visible_gpu.h"

namespace optrush {
namespace fs = std::filesystem;

namespace {
/// Whether the store's port was in use: another program got it between our choice and the start.
bool port_was_taken(const RankEnd& server) {
  const std::string said = server.result ? server.result->reason : server.log;
  return said.find("EADDRINUSE") != std::string::npos ||
         said.find("ddress already in use") != std::string::npos;
}

/// How the ranks of a job are started.
struct Place {
  ForkServer& workers;
  Followers* followers = nullptr;  ///< null: this process starts all of them
  Environment added;               ///< additional environment variables of ranks that start here
};

std::unique_ptr<RunningRank> start_here(int64_t rank, const Job& job, const fs::path& folder,
                                        const std::string& store, const Place& where,
                                        Interrupts& interrupts) {
  const int64_t size = job.spec.train.world_size, own = usable_cores();
  RankPlace place{rank, rank, size, share_of_cores(size, own, own)};
  if (where.followers != nullptr) {
    place.local_rank = where.followers->here().local_rank;
    place.local_size = where.followers->local_size(rank, size);
    place.cores = share_of_cores(place.local_size, own, cores_of_parent());
  }
  const RankFiles files{folder / "spec.json", rank_folder(folder, rank), state_folder(folder), job.from_step};
  const Command command = rank_command(where.workers.worker(), files, store, place, job.spec, where.added);
  // Under a launcher one rank starts here, for which a server would only load the libraries once more.
  auto process = where.followers == nullptr ? where.workers.start(command, interrupts)
                                            : std::make_unique<Process>(command);
  return std::make_unique<LocalRank>(rank, files.folder, std::move(process));
}

std::vector<std::unique_ptr<RunningRank>> start_ranks(const Job& job, const fs::path& folder,
                                                      const Place& where, Interrupts& interrupts) {
  const int64_t size = job.spec.train.world_size;
  const std::string host = where.followers == nullptr ? kLoopback : where.followers->here().address;
  const std::string store = host + ":" + std::to_string(free_port());
  std::vector<std::unique_ptr<RunningRank>> ranks;
  for (int64_t rank = 0; rank < size; ++rank)
    if (rank == 0 || where.followers == nullptr)
      ranks.push_back(start_here(rank, job, folder, store, where, interrupts));
    else
      ranks.push_back(where.followers->start(rank, job, store, folder));
  return ranks;
}

class RunOfRanks : public LiveRun {
 public:
  RunOfRanks(Job job, fs::path folder, Place where, Interrupts& interrupts)
      : job_(std::move(job)),
        folder_(std::move(folder)),
        where_(std::move(where)),
        interrupts_(interrupts),
        limits_(limits_of(job_)) {
    start();
  }

  std::optional<RunResult> poll() override {
    if (watch_->goes_on()) return std::nullopt;
    const RanksEnd end = watch_->end();
    if (end.kind != RanksEnd::Kind::ok && !again_ && port_was_taken(end.ends.front())) {
      again_ = true;
      fs::remove_all(folder_ / "ranks");
      start();
      return std::nullopt;
    }
    return conclude_ranks(folder_, end, job_, limits_);
  }
  RunResult time_out() override {
    return conclude_ranks(folder_, watch_->end(RanksEnd::Kind::timed_out), job_, limits_);
  }
  std::optional<RunResult> interrupt() override {
    const RanksEnd end = watch_->end(RanksEnd::Kind::interrupted);
    if (!std::ranges::all_of(end.ends, [](const RankEnd& rank) { return rank.verdict() == kOk; }))
      return std::nullopt;
    return conclude_ranks(folder_, {.ends = end.ends, .names = end.names}, job_, limits_);
  }
  /// Ranks on other machines report their ends over a connection, which no signal announces.
  std::chrono::milliseconds period() const override { return std::chrono::milliseconds(50); }

 private:
  static constexpr auto kOk = RankEnd::Verdict::ok;

  void start() {
    ranks_ = start_ranks(job_, folder_, where_, interrupts_);
    watch_.emplace(ranks_, limits_, interrupts_);
  }

  Job job_;
  fs::path folder_;
  Place where_;
  Interrupts& interrupts_;
  RankLimits limits_;
  std::vector<std::unique_ptr<RunningRank>> ranks_;
  std::optional<RankWatch> watch_;
  bool again_ = false;  ///< started again with another port
};
}  // namespace

RankLimits limits_of(const Job& job) {
  RankLimits limits{.timeout_s = job.spec.timeout_s, .stop_grace_s = grace_of(job)};
  limits.linger_s = std::max(limits.linger_s, static_cast<double>(collective_timeout().count()));
  return limits;
}

RankRun::RankRun(ForkServer& workers, int64_t gpus, Followers* followers)
    : workers_(workers), gpus_(gpus), followers_(followers) {}

std::optional<Obstacle> RankRun::obstacle(const RunSpec& spec) const {
  const int64_t ranks = spec.train.world_size;
  const std::string takes = "it needs " + std::to_string(ranks);
  if (followers_ != nullptr) {
    const Launched& here = followers_->here();
    if (ranks > here.size)
      return Obstacle{{Status::skipped,
                       takes + " ranks, but " + here.launcher + " started " + std::to_string(here.size),
                       ErrorCode::wrong_ranks}};
    if (auto missing = followers_->missing(ranks); !missing.empty())
      return Obstacle{{Status::failed, std::move(missing), ErrorCode::rank_lost}, Cause::missing};
    return std::nullopt;
  }
  const bool on_gpus = spec.device == "cuda" || (spec.device == "auto" && gpus_ > 0);
  if (on_gpus && ranks > gpus_ && !(gpus_ > 0 && ranks_may_share_a_gpu()))
    return Obstacle{{Status::skipped, takes + " GPUs, one per rank, but this machine has " +
                                          std::to_string(gpus_) + "\nuse --device cpu, or several machines"}};
  return std::nullopt;
}

std::unique_ptr<LiveRun> RankRun::start(const Job& job, const fs::path& folder, Interrupts& interrupts,
                                        const Environment& added) const {
  return std::make_unique<RunOfRanks>(job, folder, Place{workers_, followers_, added}, interrupts);
}
}  // namespace optrush
