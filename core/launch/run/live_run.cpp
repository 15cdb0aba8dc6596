#include "launch/run/live_run.h"

#include <algorithm>

#include "base/seconds_since.h"
#include "launch/ranks/control.h"
#include "launch/run/result.h"

namespace optrush {
namespace {
bool is_good(const ProcessEnd& end, const std::filesystem::path& folder) {
  if (!end.ok()) return false;
  const auto result = read_result(folder);
  return result && result->ok();
}
}  // namespace

double grace_of(const Job& job) { return saves_state(job) ? save_timeout_s() : Limits{}.grace_s; }

std::optional<RunResult> finish(LiveRun& run, double timeout_s, Interrupts& interrupts,
                                const std::function<void()>& tick) {
  const auto start = std::chrono::steady_clock::now();
  while (true) {
    if (interrupts.poll() != 0) {
      if (tick) tick();
      return run.interrupt();
    }
    if (auto result = run.poll()) return result;
    const double left = timeout_s - seconds_since(start);
    if (left <= 0) return run.time_out();
    if (tick) tick();
    interrupts.wait(std::min(run.period(), tick_within(left)));
  }
}

ProcessRun::ProcessRun(std::unique_ptr<Process> process, Job job, std::filesystem::path folder,
                       Interrupts& interrupts)
    : job_(std::move(job)),
      folder_(std::move(folder)),
      interrupts_(interrupts),
      process_(std::move(process)),
      metrics_(folder_ / "metrics.jsonl", job_.external.has_value()) {}

std::optional<RunResult> ProcessRun::end_misreporting() {
  const std::string& problem = metrics_.update(/*ended=*/end_ && end_->ok()).problem;
  if (problem.empty()) return std::nullopt;
  process_->end(grace_of(job_), interrupts_);
  return RunResult(BadEnd{Status::failed,
                          "it reported an invalid step: " + problem + "\n  hint: " + kProgramReports +
                              last_lines("log.txt", log_tail(folder_ / "log.txt")),
                          ErrorCode::invalid_file});
}

std::optional<RunResult> ProcessRun::poll() {
  if (!end_) end_ = process_->poll();
  if (job_.external)
    if (auto result = end_misreporting()) return result;
  if (!end_ || (!is_good(*end_, folder_) && was_interrupt(*end_, interrupts_, kBadEnd))) return std::nullopt;
  return conclude(folder_, *end_, job_);
}

RunResult ProcessRun::time_out() {
  process_->end(grace_of(job_), interrupts_);
  return conclude(folder_, {.kind = ProcessEnd::Kind::timed_out}, job_);
}

std::optional<RunResult> ProcessRun::interrupt() {
  if (!end_) end_ = process_->poll();
  // A program that was asked to stop may write a result of an incomplete run, which does not count. A worker
  // writes none.
  const bool asked = !end_;
  if (asked) end_ = process_->end(grace_of(job_), interrupts_);
  if ((asked && job_.external) || !is_good(*end_, folder_)) return std::nullopt;
  return conclude(folder_, *end_, job_);
}
}  // namespace optrush
