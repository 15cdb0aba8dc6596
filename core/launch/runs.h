#pragma once
#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "launch/ledger/ledger.h"
#include "launch/progress.h"
#include "launch/run/metrics_tail.h"
#include "launch/run/run_starter.h"
#include "launch/schedule/schedule.h"
#include "results/run_result.h"

namespace optrush {
/// Decides which runs of a round end before their last step (Experiment::stop_behind): a run that has reached
/// the target loss, and a run that is too far behind the first one that did.
class LossRace {
 public:
  explicit LossRace(const Experiment& experiment)
      : target_(experiment.target_loss), behind_(experiment.stop_behind) {}

  bool on() const { return behind_ > 0; }
  void begin_round();
  /// A run of the round has ended, now or in an earlier start.
  void ended(const Job&, const RunResult&);
  /// Whether a run between two steps ends. `metrics`: the file of its progress.
  bool is_over(const Job&, const std::filesystem::path& metrics);

 private:
  double target_, behind_;
  double first_s_ = HUGE_VAL;                ///< training time of the first run at the target
  std::map<std::string, MetricsTail> runs_;  ///< by id
};

/// Starts runs, and reports their starts and ends to: the ledger, the progress line, and the other processes
/// of a launcher's job.
class Runs {
 public:
  Runs(Ledger&, const RunRequest&, Interrupts&, Progress&);

  Ledger& ledger() { return ledger_; }
  RunStarter& starter() { return starter_; }
  Interrupts& interrupts() { return interrupts_; }
  Progress& progress() { return progress_; }

  /// The race of a round begins. The runs that have ended already take part.
  void begin_race();
  /// Runs a job alone. It continues from the state that an interrupted start has saved, and starts again
  /// after faults, up to Experiment::max_restarts times. None after a signal.
  std::optional<RunResult> run_alone(Job);
  /// Prints what the ledger has noted.
  void print_notes();

  // For a run that another class watches.

  /// Removes states and rank ends of an earlier start before the run begins.
  void forget(const Job&) const;
  /// Null after a signal. `how` is for the progress line.
  std::unique_ptr<LiveRun> start(const Job&, const std::string& how, const Environment& added);
  /// To be called a few times per second while runs are alive.
  void tick();
  /// Whether a run between two steps has trained enough although it has steps left.
  bool has_enough(const Job& job) { return race_.is_over(job, metrics_file(job)); }
  /// Whether has_enough() must be asked, so a run that is alone passes its turn on as well.
  bool may_have_enough() const { return race_.on(); }
  void ended(const Job&, const RunResult&);
  /// It was ended without a valid result, by a signal or because others held the memory.
  void abandoned(const Job&);

 private:
  std::filesystem::path metrics_file(const Job&) const;
  std::optional<int64_t> step_to_resume_from(const Job&);
  bool starts_again(const Job&, const RunResult&, int64_t restarts);

  Ledger& ledger_;
  const RunRequest& request_;
  Interrupts& interrupts_;
  Progress& progress_;
  RunStarter starter_;
  LossRace race_;  ///< of the round
};
}  // namespace optrush
