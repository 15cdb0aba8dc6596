#include <algorithm>

#include "base/files.h"
#include "base/text.h"
#include "launch/fork_server.h"
#include "launch/ranks/ranks.h"
#include "launch/ranks/remote_ranks.h"
#include "launch/run/live_run.h"
#include "launch/run/result.h"
#include "machine/cores.h"
#include "machine/environment.h"
#include "machine/socket.h"
#include "machine/visible_gpu.h"

namespace optrush {
namespace fs = std::filesystem;

namespace {
using Kind = RanksEnd::Kind;

/// The log of a rank, relative to the run's folder.
std::string log_of(size_t rank) { return rank_folder("", static_cast<int64_t>(rank)) / "log.txt"; }

/// Status and reason of the rank that explains the run's end, without its name.
BadEnd end_of_rank(const RanksEnd& run, const Job& job, const RankLimits& limits) {
  const RankEnd& rank = run.ends.at(run.rank);
  const std::string seen = last_seen(rank.state, job.spec.train);
  const std::string log = last_lines(log_of(run.rank), rank.log);
  if (run.kind == Kind::absent)
    return {Status::timeout, "did not reach the collective in which the others waited (last seen " + seen +
                                 ")\n" + run.waiting + log};
  if (run.kind == Kind::lingered)
    return {Status::timeout,
            "did not end within " + clock_time(limits.linger_s) + " after rank 0, last seen " + seen + log};
  if (run.kind == Kind::timed_out)
    return describe_end({.kind = ProcessEnd::Kind::timed_out}, {.timeout_s = limits.timeout_s}, "", seen,
                        log_of(run.rank), rank.log);
  if (!rank.lost.empty())
    return {Status::crashed, "was lost: " + rank.lost + ", last seen " + seen + log, ErrorCode::rank_lost};
  if (rank.result)
    return {rank.result->status, rank.result->reason + log, rank.result->code, rank.result->where};
  return describe_end(rank.end, {}, "the worker " + rank.problem, seen, log_of(run.rank), rank.log);
}

/// The cause of the run's end from that rank; none: a normal end, or not known.
std::optional<Cause> cause_of(const RanksEnd& run) {
  using Verdict = RankEnd::Verdict;
  if (run.kind == Kind::absent || run.kind == Kind::lingered) return Cause::timeout;
  if (run.kind != Kind::failed) return std::nullopt;
  switch (run.ends.at(run.rank).verdict()) {
    case Verdict::outside:
      return Cause::lost;
    case Verdict::peer:
      return Cause::peer;
    case Verdict::absence:
      return Cause::timeout;
    default:
      return std::nullopt;
  }
}

/// One word for the way in which a rank ended.
const char* way_of(const RanksEnd& run, size_t rank) {
  using Verdict = RankEnd::Verdict;
  if (run.kind != Kind::ok && rank == run.rank) return "first";
  if (std::ranges::count(run.ended_here, rank) > 0) return "ended with the others";
  switch (run.ends[rank].verdict()) {
    case Verdict::ok:
      return "ok";
    case Verdict::own:
      return "failed";
    case Verdict::outside:
      return "lost";
    case Verdict::peer:
      return "missed another rank";
    case Verdict::absence:
      return "waited for another rank";
  }
  return "";
}

/// Appends a line per rank, in order of their ends, but the rank that explains the run first.
void append_ends(const fs::path& file, const RanksEnd& run, const RunResult& result) {
  std::vector<size_t> order = run.order;
  std::ranges::stable_partition(order, [&](size_t rank) { return rank == run.rank; });
  for (const size_t rank : order) {
    const RankEnd& end = run.ends[rank];
    const bool first = rank == run.rank;
    const std::string why = first              ? result.reason
                            : end.result       ? end.result->reason
                            : end.lost.empty() ? describe_bad_end(end.end, {}).reason
                                               : end.lost;
    const Json line = {{"time", end.time},         {"rank", rank},
                       {"name", end.name},         {"step", end.state.steps},
                       {"end", way_of(run, rank)}, {"reason", first_line(why)}};
    append_line(file, line.dump(-1, ' ', true, Json::error_handler_t::replace));
  }
}

RunResult failed_run(const RanksEnd& run, const Job& job, const RankLimits& limits) {
  BadEnd end = end_of_rank(run, job, limits);
  end.reason = run.ends.at(run.rank).name + ": " + end.reason;
  RunResult result(end);
  result.rank = static_cast<int64_t>(run.rank);
  const RankEnd& rank = run.ends.at(run.rank);
  result.cause = cause_of(run);
  if (rank.result) result.requested_bytes = rank.result->requested_bytes;
  return result;
}

/// Rank 0's result, with a note for each rank that failed after its own end.
RunResult succeeded(const RanksEnd& run) {
  RunResult result = run.ends.front().result.value();
  for (const RankEnd& rank : run.ends)
    if (!rank.end.ok())
      result.notes.push_back("after its result was written, " + rank.name +
                             " failed: " + describe_bad_end(rank.end, {}).reason);
  return result;
}

/// Whether the store's port was in use: another program got it between our choice and the start.
bool port_was_in_use(const RankEnd& server) {
  const std::string said = server.result ? server.result->reason : server.log;
  return said.find("EADDRINUSE") != std::string::npos ||
         said.find("ddress already in use") != std::string::npos;
}

class RunOfRanks : public LiveRun {
 public:
  RunOfRanks(Job job, fs::path folder, ForkServer& workers, RemoteRanks* remote_ranks, Environment added,
             Interrupts& interrupts)
      : job_(std::move(job)),
        folder_(std::move(folder)),
        workers_(workers),
        remote_ranks_(remote_ranks),
        added_(std::move(added)),
        interrupts_(interrupts),
        limits_(limits_of(job_)) {
    start();
  }

  std::optional<RunResult> poll() override {
    if (watch_->goes_on()) return std::nullopt;
    const RanksEnd end = watch_->end();
    if (end.kind != Kind::ok && !again_ && port_was_in_use(end.ends.front())) {
      again_ = true;
      fs::remove_all(folder_ / "ranks");
      start();
      return std::nullopt;
    }
    return conclude_ranks(folder_, end, job_, limits_);
  }
  RunResult time_out() override {
    return conclude_ranks(folder_, watch_->end(Kind::timed_out), job_, limits_);
  }
  std::optional<RunResult> interrupt() override {
    const RanksEnd end = watch_->end(Kind::interrupted);
    for (const RankEnd& rank : end.ends)
      if (rank.verdict() != RankEnd::Verdict::ok) return std::nullopt;
    return conclude_ranks(folder_, {.ends = end.ends}, job_, limits_);
  }
  /// Ranks on other machines report their ends over a connection, which no signal announces.
  std::chrono::milliseconds period() const override { return std::chrono::milliseconds(50); }

 private:
  void start() {
    const std::string host = remote_ranks_ == nullptr ? kLoopback : remote_ranks_->here().address;
    const std::string store = host + ":" + std::to_string(free_port());
    ranks_.clear();
    for (int64_t rank = 0; rank < job_.spec.train.world_size; ++rank)
      ranks_.push_back(rank == 0 || remote_ranks_ == nullptr
                           ? start_here(rank, store)
                           : remote_ranks_->start(rank, job_, store, folder_));
    watch_.emplace(ranks_, limits_, interrupts_);
  }

  std::unique_ptr<RunningRank> start_here(int64_t rank, const std::string& store) {
    const int64_t size = job_.spec.train.world_size, own = usable_cores();
    RankSetup setup{.rank = rank,
                    .local_rank = rank,
                    .local_size = size,
                    .cores = share_of_cores(size, own, own),
                    .store = store,
                    .spec = folder_ / "spec.json",
                    .folder = rank_folder(folder_, rank),
                    .state = state_folder(folder_),
                    .from_step = job_.from_step};
    if (remote_ranks_ != nullptr) {
      setup.local_rank = remote_ranks_->here().local_rank;
      setup.local_size = remote_ranks_->local_size(rank, size);
      setup.cores = share_of_cores(setup.local_size, own, cores_of_parent());
    }
    const Command command = rank_command(workers_.worker(), setup, job_.spec, added_);
    // Under a launcher one rank starts here, for which a server would only load the libraries once more.
    auto process =
        remote_ranks_ == nullptr ? workers_.start(command, interrupts_) : std::make_unique<Process>(command);
    return std::make_unique<LocalRank>(rank, setup.folder, std::move(process));
  }

  Job job_;
  fs::path folder_;
  ForkServer& workers_;
  RemoteRanks* remote_ranks_;
  Environment added_;
  Interrupts& interrupts_;
  RankLimits limits_;
  std::vector<std::unique_ptr<RunningRank>> ranks_;
  std::optional<RankWatch> watch_;
  bool again_ = false;  ///< started again with another port
};
}  // namespace

RunResult conclude_ranks(const fs::path& run_folder, const RanksEnd& run, const Job& job,
                         const RankLimits& limits) {
  RunResult result = run.kind == Kind::ok ? succeeded(run) : failed_run(run, job, limits);
  for (const auto& rank : run.ends) note_orphans(result, rank.end);
  complete_end(run_folder, result);
  if (run.kind != Kind::ok) append_ends(run_folder / kRankEnds, run, result);
  return result;
}

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

std::unique_ptr<LiveRun> start_ranks(const Job& job, const fs::path& folder, ForkServer& workers,
                                     RemoteRanks* remote_ranks, const Environment& added,
                                     Interrupts& interrupts) {
  return std::make_unique<RunOfRanks>(job, folder, workers, remote_ranks, added, interrupts);
}
}  // namespace optrush
