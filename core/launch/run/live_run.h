#pragma once
#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>

#include "launch/schedule/schedule.h"
#include "process/process.h"
#include "results/run_result.h"

namespace optrush {
/// A run whose processes have been started. They end with the object.
class LiveRun {
 public:
  virtual ~LiveRun() = default;
  /// Its result, once it has ended; it is stored then.
  virtual std::optional<RunResult> poll() = 0;
  /// Ends it because its time is over. Its result, which is stored.
  virtual RunResult time_out() = 0;
  /// Ends it because of a signal: SIGTERM, some time, SIGKILL. What it was asked for is no end of its own, so
  /// nothing is stored, unless it came to a good end all the same: then its result.
  virtual std::optional<RunResult> interrupt() = 0;
  /// How often to poll for its end, where no signal reports it.
  virtual std::chrono::milliseconds period() const { return std::chrono::milliseconds(250); }
};

/// Seconds between SIGTERM and SIGKILL: 5, and of a run that saves its state so many that it can save once
/// more.
double grace_of(const Job&);

/// Waits for a run's end, for the end of its time or for the first signal that asks to stop. Once a signal
/// has come only a good end is a result: a bad one may be the signal's doing, wherever it was heard first.
/// `tick` is called now and then.
std::optional<RunResult> finish(LiveRun&, double timeout_s, Interrupts&,
                                const std::function<void()>& tick = {});

/// A run that one process makes.
class ProcessRun : public LiveRun {
 public:
  ProcessRun(const Command&, Job, std::filesystem::path folder, Interrupts&);
  std::optional<RunResult> poll() override;
  RunResult time_out() override;
  std::optional<RunResult> interrupt() override;

 private:
  Job job_;
  std::filesystem::path folder_;
  Interrupts& interrupts_;
  Process process_;
  std::optional<ProcessEnd> end_;
};

/// A run that could not be started, whose result is stored already.
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
