#include <algorithm>

#include "base/files.h"
#include "base/text.h"
#include "launch/ranks/ranks.h"
#include "launch/run/result.h"
#include "launch/run/traced_step.h"

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
}  // namespace

RunResult conclude_ranks(const fs::path& run_folder, const RanksEnd& run, const Job& job,
                         const RankLimits& limits) {
  RunResult result = run.kind == Kind::ok ? succeeded(run) : failed_run(run, job, limits);
  for (const auto& rank : run.ends) note_orphans(result, rank.end);
  if (result.ok()) add_traced_step(result, run_folder);
  check_disk(run_folder, result);
  if (run.kind != Kind::ok) append_ends(run_folder / kRankEnds, run, result);
  return result;
}
}  // namespace optrush
