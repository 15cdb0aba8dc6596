#pragma once
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>

#include "launch/run/metrics_tail.h"
#include "launch/schedule/schedule.h"
#include "process/process.h"
#include "results/run_result.h"

namespace optrush {
/// A run whose processes have been started. The destructor ends them. Its result is for the ledger to store.
class LiveRun {
 public:
  virtual ~LiveRun() = default;
  /// Its result after it has ended.
  virtual std::optional<RunResult> poll() = 0;
  /// Ends it because its time is over.
  virtual RunResult time_out() = 0;
  /// Ends it because of a signal: SIGTERM, a pause, SIGKILL. Such an end is not a result, unless the run
  /// succeeded anyway.
  virtual std::optional<RunResult> interrupt() = 0;
  /// How often to poll for its end, if no signal reports it.
  virtual std::chrono::milliseconds period() const { return kTick; }
};

/// Seconds between SIGTERM and SIGKILL: 5, or longer for a run that saves its state once more.
double grace_of(const Job&);

/// Waits for a run's end, its time limit, or the first stop signal. After a signal, only success is a result,
/// because the signal may have caused a failure. `tick` is called repeatedly.
std::optional<RunResult> finish(LiveRun&, double timeout_s, Interrupts&,
                                const std::function<void()>& tick = {});

class ProcessRun : public LiveRun {
 public:
  ProcessRun(std::unique_ptr<Process>, Job, std::filesystem::path folder, Interrupts&);
  std::optional<RunResult> poll() override;
  RunResult time_out() override;
  std::optional<RunResult> interrupt() override;

 private:
  /// Ends a program as soon as it reports a step that breaks the schema. Returns its result.
  std::optional<RunResult> end_misreporting();

  Job job_;
  std::filesystem::path folder_;
  Interrupts& interrupts_;
  std::unique_ptr<Process> process_;
  MetricsTail metrics_;
  std::optional<ProcessEnd> end_;
};

/// A run that could not be started.
class UnstartedRun : public LiveRun {
 public:
  explicit UnstartedRun(RunResult result) : result_(std::move(result)) {}
  std::optional<RunResult> poll() override { return result_; }
  RunResult time_out() override { return result_; }
  std::optional<RunResult> interrupt() override { return std::nullopt; }

 private:
  RunResult result_;
};
}  // namespace optrush
