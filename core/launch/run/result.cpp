#include "launch/run/result.h"

#include <algorithm>
#include <fstream>
#include <set>

#include "analysis/numbers/statistics.h"
#include "base/files.h"
#include "base/number_text.h"
#include "base/printable.h"
#include "base/text.h"
#include "launch/run/traced_step.h"
#include "optrush/error.h"
#include "spec/spec_json.h"

namespace optrush {
namespace fs = std::filesystem;

namespace {
constexpr size_t kTailBytes = 2000;
constexpr size_t kTailLines = 10;
constexpr size_t kLongestQuote = 200;  // bytes; the cut may split a character, so printable() follows it
constexpr uintmax_t kFullDisk = 1 << 20;
constexpr const char* kNoSpace = "No space left on device";

BadEnd describe_kill(const std::optional<bool>& out_of_memory) {
  if (!out_of_memory) return {Status::oom, "killed, probably by the host's out-of-memory killer"};
  if (*out_of_memory) return {Status::oom, "killed by the kernel's out-of-memory killer"};
  return {Status::crashed,
          "killed by a SIGKILL from another program or user (the kernel reports no out-of-memory kill)"};
}

/// Returns the SHA-256 of the file.
std::string write_hashed(const fs::path& file, const Json& json) {
  const std::string content = json_text(json);
  write_file(file, content);
  return sha256(content);
}

/// If a command printed its RunResult: writes the last JSON object of the log to result.json.
void keep_printed_result(const fs::path& run_folder) {
  const fs::path out = run_folder / "result.json", log = run_folder / "log.txt";
  if (is_there(out) || !fs::exists(log)) return;
  const std::string text = read_file(log);
  for (size_t at = text.size(); at != std::string::npos && at > 0;) {
    at = text.rfind('{', at - 1);
    if (at == std::string::npos) return;
    if (at > 0 && text[at - 1] != '\n') continue;
    const std::string_view rest = std::string_view(text).substr(at);
    for (const auto& part : {rest, rest.substr(0, rest.find('\n'))})
      if (const Json result = Json::parse(part, nullptr, false);
          result.is_object() && result.contains("schema_version"))
        return write_json(out, result);
  }
}

/// If a command only reported its steps: writes them as its result to result.json.
void keep_reported_steps(const fs::path& run_folder) {
  const fs::path out = run_folder / "result.json";
  if (is_there(out)) return;
  const Json steps =
      MetricsTail(run_folder / "metrics.jsonl", /*external=*/true).update(/*ended=*/true).reported;
  if (!steps.empty())
    write_json(out, {{"schema_version", 1}, {"status", "ok"}, {"reason", ""}, {"steps", steps}});
}

/// Completes a successful program's result by what follows from its steps: tokens/s, and the time of a step.
/// `stored`: the result as the program wrote it. Throws an Error if it contradicts itself or did not train.
void complete_result(RunResult& result, const Json& stored) {
  const auto has_loss = [](const Json& step) { return step.contains("loss"); };
  if (!result.has_losses() && std::ranges::any_of(stored.value("steps", Json::array()), has_loss))
    throw Error(ErrorCode::diverged, "the loss is not finite in any step",
                "lower the learning rate; a program that does not know its loss leaves `loss` out");
  std::vector<double> seconds, rates;
  double trained = 0;
  std::set<int64_t> lengths;
  for (const StepResult& step : result.steps) {
    if (!step.timed || step.tokens == 0 || step.seconds == 0) continue;
    seconds.push_back(step.seconds);
    rates.push_back(static_cast<double>(step.tokens) / step.seconds);
    trained += static_cast<double>(step.trained);
    lengths.insert(step.tokens);
  }
  const auto& reported = result.tokens_per_second;
  if (rates.empty() && reported) return;
  if (rates.empty())
    throw Error(ErrorCode::invalid_file,
                "its result has neither tokens_per_second nor timed steps from which it follows",
                kProgramReports);
  const auto [slowest, fastest] = std::ranges::minmax(rates);
  constexpr double kRounding = 0.01;
  if (reported && (*reported < slowest * (1 - kRounding) || *reported > fastest * (1 + kRounding)))
    throw Error(ErrorCode::invalid_file,
                "its tokens_per_second is " + grouped(*reported) + ", but its timed steps make " +
                    grouped(slowest) + " to " + grouped(fastest),
                "leave out tokens_per_second: it then follows from the tokens and seconds of the steps");
  if (!result.step_seconds) result.step_seconds = median(seconds);
  if (reported) return;
  // As the worker computes them: by the median step if all do the same work.
  const auto each = [&](double all) { return all / static_cast<double>(seconds.size()); };
  const double step = lengths.size() == 1 ? *median(seconds) : each(result.timed_seconds());
  result.tokens_per_second = each(static_cast<double>(result.timed_tokens())) / step;
  result.trained_tokens_per_second = each(trained) / step;
}

RunResult concluded(const fs::path& run_folder, const ProcessEnd& end, const Job& job) {
  const std::string program = job.external ? "the command" : "the worker";
  std::string problem;
  const Limits limits{.timeout_s = job.spec.timeout_s};
  if (job.external) keep_printed_result(run_folder);
  if (job.external && end.ok()) keep_reported_steps(run_folder);
  auto result = read_result(run_folder, &problem);
  try {
    if (result && result->ok() && job.external)
      complete_result(*result, read_json(run_folder / "result.json"));
  } catch (const Error& e) {
    result = RunResult(failed(e, e.what()));
  }
  if (result && end.ok() && end.orphans.empty()) return *result;
  if (result && !end.ok())
    result->notes.push_back("after its result was written, " + program +
                            " failed: " + describe_bad_end(end, limits).reason);
  if (!result) {
    const RunState state = MetricsTail(run_folder / "metrics.jsonl").update();
    result.emplace(describe_end(end, limits, program + " " + problem, last_seen(state, job.spec.train),
                                "log.txt", log_tail(run_folder / "log.txt")));
    if (ended_from_outside(end)) result->cause = Cause::lost;
    const bool mute = end.kind == ProcessEnd::Kind::timed_out && state.steps == 0;
    if (job.external && (end.ok() || mute))  // after the first line, which is the problem
      result->reason.insert(std::min(result->reason.size(), result->reason.find('\n')),
                            std::string("\n  hint: ") + kProgramReports);
  }
  note_orphans(*result, end);
  return *result;
}
}  // namespace

std::optional<RunResult> read_result(const fs::path& run_folder, std::string* problem) {
  const auto reject = [&](const std::string& what) {
    if (problem != nullptr) *problem = what;
    return std::nullopt;
  };
  const fs::path file = run_folder / "result.json";
  if (!is_there(file)) return reject("wrote no result");
  try {
    return run_result_from_json(read_json(file), file.string());
  } catch (const Error& e) {
    return reject("wrote an invalid result (" + e.message() + ")");
  }
}

BadEnd describe_bad_end(const ProcessEnd& end, const Limits& limits) {
  using Kind = ProcessEnd::Kind;
  if (end.kind == Kind::timed_out)
    return {Status::timeout, "did not end within " + clock_time(limits.timeout_s)};
  if (end.kind == Kind::signalled && end.signal == SIGKILL) return describe_kill(end.out_of_memory);
  if (end.kind == Kind::signalled) return {Status::crashed, "ended by " + describe_signal(end.signal)};
  return {Status::crashed, "ended with exit code " + std::to_string(end.code)};
}

BadEnd describe_end(const ProcessEnd& end, const Limits& limits, const std::string& problem,
                    const std::string& last_seen, const std::string& log_name, const std::string& log) {
  BadEnd bad = describe_bad_end(end, limits);
  if (end.ok()) bad.reason = problem;
  bad.reason += ", " + last_seen;
  if (end.kind == ProcessEnd::Kind::exited && !end.ok() && !log.empty()) {
    const std::string line = log.substr(log.rfind('\n') + 1), cut = line.substr(0, kLongestQuote);
    bad.reason += ": " + printable(cut) + (cut.size() < line.size() ? "..." : "");
  }
  if (bad.status == Status::timeout)
    bad.reason +=
        "\n  hint: raise `timeout` in the script, or give --set timeout=SECONDS; then rerun with --resume "
        "--retry: the run continues from its last saved state, if it has one";
  if (bad.status == Status::oom)
    bad.reason += "\n  hint: use a smaller model, micro_batch or seq_len, or a machine with more memory";
  bad.reason += last_lines(log_name, log);
  return bad;
}

std::string last_seen(const RunState& state, const TrainSpec& train) {
  if (state.steps > 0)
    return "after step " + std::to_string(state.steps) + " of " + std::to_string(state.length_by(train));
  return state.phase.empty() ? "before its first message" : "in phase " + state.phase;
}

std::string last_lines(const std::string& log_name, const std::string& log) {
  return log.empty() ? "" : "\nlast lines of " + log_name + ":\n" + log;
}

std::string store_job(const fs::path& run_folder, const Job& job) {
  if (job.external) write_json(run_folder / "external.json", record::written(*job.external));
  return write_hashed(run_folder / "spec.json", to_json(job.spec));
}

std::string store_result(const fs::path& run_folder, const Job& job, const RunResult& result) {
  if (!is_there(run_folder / "spec.json")) store_job(run_folder, job);
  const fs::path file = run_folder / "result.json";
  std::error_code unknown;
  if (fs::symlink_status(file, unknown).type() != fs::file_type::regular) fs::remove_all(file, unknown);
  return write_hashed(file, to_json(result));
}

void complete_end(const fs::path& run_folder, RunResult& result) {
  if (result.ok()) return add_traced_step(result, run_folder);
  if (result.status == Status::skipped) return;
  std::error_code unknown;
  const fs::space_info space = fs::space(run_folder, unknown);
  const bool full = !unknown && space.available < kFullDisk;
  if (!full && result.reason.find(kNoSpace) == std::string::npos) return;
  fs::remove_all(run_folder / "result.json", unknown);
  throw Error(ErrorCode::file_access,
              "the disk is full: a run in '" + run_folder.string() + "' could not be finished",
              "free some space, then run the missing runs with --resume");
}

void note_orphans(RunResult& result, const ProcessEnd& end) {
  if (!end.orphans.empty())
    result.notes.push_back("processes that the run left outside of its process group were ended: " +
                           join(end.orphans));
}

RunResult conclude(const fs::path& run_folder, const ProcessEnd& end, const Job& job) {
  RunResult result;
  try {
    result = concluded(run_folder, end, job);
  } catch (const std::exception& e) {  // an invalid file is the end of this run and not of the experiment
    result = RunResult(BadEnd{Status::crashed, std::string("left an unreadable folder: ") + e.what(),
                              ErrorCode::invalid_file});
  }
  complete_end(run_folder, result);
  return result;
}

std::string end_of_file(const fs::path& file, int64_t bytes) {
  std::error_code unreadable;
  std::ifstream in;
  if (fs::is_regular_file(file, unreadable)) in.open(file, std::ios::binary | std::ios::ate);
  if (!in.is_open()) return {};
  const auto size = static_cast<int64_t>(in.tellg());
  in.seekg(std::max<int64_t>(0, size - bytes));
  return rest_of(in);
}

std::string log_tail(const fs::path& log) { return last_lines_of(end_of_file(log, kTailBytes)); }

std::string last_lines_of(std::string text) {
  if (text.size() > kTailBytes) text.erase(0, text.size() - kTailBytes);
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  size_t start = text.size();
  for (size_t lines = 0; lines < kTailLines && start != std::string::npos && start > 0; ++lines)
    start = text.rfind('\n', start - 1);
  return start == std::string::npos || start == 0 ? text : text.substr(start + 1);
}

void clear_run(const fs::path& run_folder) {
  fs::remove(run_folder / kRankEnds);
  clear_attempt(run_folder);
}

void clear_attempt(const fs::path& run_folder) {
  // The result first: if this process is killed, the rest is not a finished run.
  const std::vector<std::string> files = {"result.json", "spec.json",  "external.json", "metrics.jsonl",
                                          "log.txt",     "trace.json", "ranks"};
  for (const auto& name : files) fs::remove_all(run_folder / name);
  remove_unfinished(run_folder, files);
  if (fs::is_directory(run_folder) && fs::is_empty(run_folder)) fs::remove(run_folder);
}
}  // namespace optrush
