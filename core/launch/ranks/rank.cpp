#include "launch/ranks/rank.h"

#include "launch/fork_server.h"
#include "launch/run/result.h"
#include "machine/environment.h"

namespace optrush {
namespace fs = std::filesystem;

namespace {
constexpr int64_t kMostLogBytes = 1 << 16;  // of Seen::log

/// The result of a worker that a library aborted with a message in the log; none: no such message.
std::optional<RunResult> last_words(const fs::path& log) {
  constexpr int64_t kBytes = 1 << 18;  // stack traces follow the message
  const std::string text = end_of_file(log, kBytes);
  const auto line_with = [&](std::string_view sign) {
    const size_t found = text.find(sign);
    return found == std::string::npos ? "" : text.substr(found, text.find('\n', found) - found);
  };
  std::optional<RunResult> result;
  // NCCL's watchdog reports a collective that did not complete: this rank waited for another one.
  if (std::string line = line_with("Watchdog caught collective operation timeout"); !line.empty()) {
    result.emplace(BadEnd{Status::failed, std::move(line), ErrorCode::timeout});
    result->cause = Cause::timeout;
  } else if (line = line_with("op.preamble.length <= op.nbytes"); !line.empty()) {  // of Gloo
    result.emplace(BadEnd{Status::failed,
                          "another rank gave a collective a tensor of another size (" + line +
                              ")\n  hint: every rank must give a collective the same number of bytes",
                          ErrorCode::invalid_plugin});
    result->cause = Cause::own;
  }
  return result;
}
}  // namespace

Command rank_command(const fs::path& worker, const RankSetup& rank, const RunSpec& run,
                     const Environment& added) {
  fs::create_directories(rank.folder);
  auto environment = worker_environment(run, rank.cores);
  environment.insert(environment.end(), added.begin(), added.end());
  std::vector<std::string> arguments = {worker,         "run",
                                        "--spec",       rank.spec,
                                        "--out",        rank.folder,
                                        "--state",      rank.state,
                                        "--rank",       std::to_string(rank.rank),
                                        "--local-rank", std::to_string(rank.local_rank),
                                        "--local-size", std::to_string(rank.local_size),
                                        "--store",      rank.store};
  if (rank.from_step) arguments.insert(arguments.end(), {"--continue", std::to_string(*rank.from_step)});
  return {arguments, environment, rank.folder / "log.txt"};
}

RankEnd::Verdict RankEnd::verdict() const {
  if (!result) return lost.empty() && !ended_from_outside(end) ? Verdict::own : Verdict::outside;
  if (result->ok()) return Verdict::ok;
  return result->cause == Cause::peer      ? Verdict::peer
         : result->cause == Cause::timeout ? Verdict::absence
                                           : Verdict::own;
}

LocalRank::LocalRank(int64_t rank, fs::path folder, std::unique_ptr<Process> worker)
    : RunningRank(rank_name(rank, host_name())),
      folder_(std::move(folder)),
      metrics_(folder_ / "metrics.jsonl"),
      process_(std::move(worker)) {}

std::optional<RankEnd> LocalRank::poll() {
  const auto process = process_->poll();
  if (!process) return std::nullopt;
  RankEnd end{.end = *process};
  end.result = read_result(folder_, &end.problem);
  end.state = metrics_.update();
  const fs::path log = folder_ / "log.txt";
  end.log = log_tail(log);
  if (!end.result) end.result = last_words(log);
  return end;
}

Seen LocalRank::seen() {
  const RunState& state = metrics_.update();
  return {state.phase, state.steps, end_of_file(folder_ / "log.txt", kMostLogBytes)};
}

fs::path state_folder(const fs::path& run_folder) { return run_folder / "state"; }

fs::path best_state_folder(const fs::path& run_folder) { return run_folder / "best"; }

fs::path rank_folder(const fs::path& run_folder, int64_t rank) {
  return run_folder / "ranks" / std::to_string(rank);
}

std::string rank_name(int64_t rank, const std::string& host) {
  return "rank " + std::to_string(rank) + (host.empty() ? "" : " (host " + host + ")");
}
}  // namespace optrush
