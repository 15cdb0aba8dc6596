#include "launch/run/live_run.h"

#include <algorithm>

#include "launch/run/control.h"
#include "launch/run/external_run.h"
#include "launch/run/restart.h"
#include "launch/run/result.h"

namespace optrush {
namespace {
bool is_good(const ProcessEnd& end, const std::filesystem::path& folder) {
  if (end.kind != ProcessEnd::Kind::exited || end.code != 0) return false;
  const auto result = read_result(folder);
  return result && result->ok();
}
}  // namespace

double grace_of(const Job& job) { return saves_state(job) ? save_timeout_s() : Limits{}.grace_s; }

std::optional<RunResult> finish(LiveRun& run, double timeout_s, Interrupts& interrupts,
                                const std::function<void()>& tick) {
  const auto start = std::chrono::steady_clock::now();
  while (true) {
    interrupts.take();
    if (interrupts.signal() != 0) {
      if (tick) tick();
      return run.interrupt();
    }
    if (auto result = run.poll()) return result;
    const std::chrono::duration<double> past = std::chrono::steady_clock::now() - start;
    const double left = timeout_s - past.count();
    if (left <= 0) return run.time_out();
    if (tick) tick();
    interrupts.wait(std::min(run.period(), std::chrono::milliseconds(static_cast<int64_t>(left * 1000) + 1)));
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
  const bool ended = end_ && end_->kind == ProcessEnd::Kind::exited && end_->code == 0;
  const std::string& problem = metrics_.update(ended).problem;
  if (problem.empty()) return std::nullopt;
  process_->end(grace_of(job_), interrupts_);
  return RunResult(BadEnd{Status::failed,
                          "it reported an invalid step: " + problem + "\n" + kProgramReports +
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
