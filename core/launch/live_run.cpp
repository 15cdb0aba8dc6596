#include "launch/live_run.h"

#include <algorithm>

#include "launch/result.h"

namespace optrush {
namespace {
constexpr double kGrace = Limits{}.grace_s;
}  // namespace

std::optional<Json> finish(LiveRun& run, double timeout_s, Interrupts& interrupts,
                           const std::function<void()>& tick) {
  const auto start = std::chrono::steady_clock::now();
  while (true) {
    if (auto result = run.poll()) return result;
    if (interrupts.signal() != 0) {
      run.end();
      return std::nullopt;
    }
    const std::chrono::duration<double> past = std::chrono::steady_clock::now() - start;
    const double left = timeout_s - past.count();
    if (left <= 0) return run.time_out();
    if (tick) tick();
    interrupts.wait(std::min(run.period(), std::chrono::milliseconds(static_cast<int64_t>(left * 1000) + 1)));
  }
}

ProcessRun::ProcessRun(const Command& command, Job job, std::filesystem::path folder, Interrupts& interrupts)
    : job_(std::move(job)), folder_(std::move(folder)), interrupts_(interrupts), process_(command) {}

std::optional<Json> ProcessRun::poll() {
  const auto end = process_.poll();
  if (!end) return std::nullopt;
  return conclude(folder_, *end, job_);
}

Json ProcessRun::time_out() {
  process_.end(kGrace, interrupts_);
  return conclude(folder_, {.kind = ProcessEnd::Kind::timed_out}, job_);
}

void ProcessRun::end() { process_.end(kGrace, interrupts_); }
}  // namespace optrush
