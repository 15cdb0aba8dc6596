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
bool port_was_in_use(const RankEnd& server) {
  const std::string said = server.result ? server.result->reason : server.log;
  return said.find("EADDRINUSE") != std::string::npos ||
         said.find("ddress already in use") != std::string::npos;
}

std::unique_ptr<RunningRank> start_here(int64_t rank, const Job& job, const fs::path& folder,
                                        const std::string& store, const RankStart& where,
                                        Interrupts& interrupts) {
  const int64_t size = job.spec.train.world_size, own = usable_cores();
  RankSetup setup{.rank = rank,
                  .local_rank = rank,
                  .local_size = size,
                  .cores = share_of_cores(size, own, own),
                  .store = store,
                  .spec = folder / "spec.json",
                  .folder = rank_folder(folder, rank),
                  .state = state_folder(folder),
                  .from_step = job.from_step};
  if (where.remote_ranks != nullptr) {
    setup.local_rank = where.remote_ranks->here().local_rank;
    setup.local_size = where.remote_ranks->local_size(rank, size);
    setup.cores = share_of_cores(setup.local_size, own, cores_of_parent());
  }
  const Command command = rank_command(where.workers.worker(), setup, job.spec, where.added);
  // Under a launcher one rank starts here, for which a server would only load the libraries once more.
  auto process = where.remote_ranks == nullptr ? where.workers.start(command, interrupts)
                                               : std::make_unique<Process>(command);
  return std::make_unique<LocalRank>(rank, setup.folder, std::move(process));
}

std::vector<std::unique_ptr<RunningRank>> started_ranks(const Job& job, const fs::path& folder,
                                                        const RankStart& where, Interrupts& interrupts) {
  const int64_t size = job.spec.train.world_size;
  const std::string host = where.remote_ranks == nullptr ? kLoopback : where.remote_ranks->here().address;
  const std::string store = host + ":" + std::to_string(free_port());
  std::vector<std::unique_ptr<RunningRank>> ranks;
  for (int64_t rank = 0; rank < size; ++rank)
    if (rank == 0 || where.remote_ranks == nullptr)
      ranks.push_back(start_here(rank, job, folder, store, where, interrupts));
    else
      ranks.push_back(where.remote_ranks->start(rank, job, store, folder));
  return ranks;
}

class RunOfRanks : public LiveRun {
 public:
  RunOfRanks(Job job, fs::path folder, RankStart where, Interrupts& interrupts)
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
    if (end.kind != RanksEnd::Kind::ok && !again_ && port_was_in_use(end.ends.front())) {
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
    for (const RankEnd& rank : end.ends)
      if (rank.verdict() != RankEnd::Verdict::ok) return std::nullopt;
    return conclude_ranks(folder_, {.ends = end.ends}, job_, limits_);
  }
  /// Ranks on other machines report their ends over a connection, which no signal announces.
  std::chrono::milliseconds period() const override { return std::chrono::milliseconds(50); }

 private:
  void start() {
    ranks_ = started_ranks(job_, folder_, where_, interrupts_);
    watch_.emplace(ranks_, limits_, interrupts_);
  }

  Job job_;
  fs::path folder_;
  RankStart where_;
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

std::optional<RunResult> obstacle(const RunSpec& spec, int64_t gpus, RemoteRanks* remote_ranks) {
  const int64_t ranks = spec.train.world_size;
  const std::string needs = "it needs " + std::to_string(ranks);
  if (remote_ranks != nullptr) {
    const Launched& here = remote_ranks->here();
    if (ranks > here.size)
      return RunResult(BadEnd{
          Status::skipped, needs + " ranks, but " + here.launcher + " started " + std::to_string(here.size),
          ErrorCode::wrong_ranks});
    auto missing = remote_ranks->missing(ranks);
    if (missing.empty()) return std::nullopt;
    RunResult result(BadEnd{Status::failed, std::move(missing), ErrorCode::rank_lost});
    result.cause = Cause::missing;
    return result;
  }
  const bool on_gpus = spec.device == "cuda" || (spec.device == "auto" && gpus > 0);
  if (on_gpus && ranks > gpus && !(gpus > 0 && ranks_may_share_a_gpu()))
    return RunResult(BadEnd{Status::skipped, needs + " GPUs, one per rank, but this machine has " +
                                                 std::to_string(gpus) +
                                                 "\nuse --device cpu, or several machines"});
  return std::nullopt;
}

std::unique_ptr<LiveRun> start_ranks(const Job& job, const fs::path& folder, RankStart where,
                                     Interrupts& interrupts) {
  return std::make_unique<RunOfRanks>(job, folder, std::move(where), interrupts);
}
}  // namespace optrush
