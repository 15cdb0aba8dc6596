#pragma once
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "launch/controller.h"
#include "launch/interleaving/interleaved_round.h"
#include "launch/interleaving/interleaving_choice.h"
#include "launch/interleaving/loss_race.h"
#include "launch/journal.h"
#include "launch/run/result.h"
#include "launch/run/run_starter.h"
#include "launch/run/stored_results.h"
#include "launch/schedule/schedule.h"
#include "launch/schedule/time_left.h"
#include "results/stored.h"

namespace optrush {
/// The variants of an experiment and the knowledge about them during the run.
struct Runs {
  std::vector<Variant> variants;  ///< final after planning
  Schedule schedule;              ///< the schedule of these variants
  Plans plans;                    ///< by variant; none: no plan, or dropped

  Runs(const Expanded&, const std::vector<std::string>& only);
  Runs(const Runs&) = delete;
  Runs& operator=(const Runs&) = delete;
};

/// Number of timed steps for all runs of a round, from the times of its first runs. Called once per round.
using Pacer = std::function<int64_t(const std::map<int64_t, RunCost>&)>;

/// Runs jobs, one by one or interleaved, and stores and journals their ends. If the request resumes, finished
/// jobs are not run again.
class Execution : private InterleavedRound::Host {
 public:
  Execution(const Experiment&, const RunRequest&, Runs&, const std::filesystem::path& folder, Interrupts&,
            Progress&);

  /// Sets the number of GPUs of this machine, before the first run.
  void machine_has(int64_t gpus) { starter_.machine_has(gpus); }
  /// Runs jobs one after the other. Returns their results, except of those that a signal stopped.
  std::vector<StoredRun> execute(const std::vector<Job>&);
  /// Runs the jobs of one round: interleaved where possible, the others one after the other. With a `pacer`,
  /// all jobs that can be shortened make the number of steps that it returns.
  void execute_round(std::vector<Job>, int64_t round, Pacer pacer = {});
  /// Whether a run may end before its last step: no training that is saved, or timed until a loss is reached.
  bool is_wanted_whole(const RunSpec&) const;
  bool can_be_cut(const Job&) const;
  /// The plan of this variant failed, so it has no further runs. Its earlier results are kept.
  void cannot_run(const Variant&, const BadEnd&);

  /// Whether the first run of a variant has a state from which it continues, though perhaps on another number
  /// of ranks.
  bool keeps_state(const Variant&);
  bool is_executed(const Job&) const;
  /// Whether the request resumes and a valid result of the job is stored.
  bool is_done(const Job&);
  /// Whether the bytes of a stored result have changed since it was written.
  bool was_changed(const std::string& run) { return stored_.was_changed(run); }
  std::filesystem::path run_folder(const std::string& id) const { return folder_ / "runs" / id; }
  Journal& journal() { return journal_; }
  bool all_ok() const { return all_ok_; }
  /// Number of started run processes.
  int64_t started() const { return started_; }

 private:
  bool counts(const Job&, const RunResult&) const;
  void execute_interleaved(std::vector<Job>, int64_t round);
  std::optional<RunResult> execute(const Job&);
  std::optional<RunResult> stored_result(const Job&);
  void take(const Job&, const RunResult&);
  std::string change_since_state(const Json& record, const Job&);
  std::optional<int64_t> step_to_go_on_with(const Job&);
  std::optional<RunResult> run(Job);
  std::optional<RunResult> attempt(Job&);
  bool starts_again(const Job&, const RunResult&, int64_t restarts);
  void note_restarts(const Job&, RunResult&) const;
  void finished(const Job&, const RunResult&);
  std::unique_ptr<LiveRun> start(const Job&, const std::string& how, const Environment& added);
  void tell_of_followers();
  LaterRuns& later_runs();
  Progress::Position position_of(const Job&, const std::string& how);
  void drop(const Variant&, const std::string& why);
  void forget_plans(const Variant&);
  void store_unstarted(const Variant&, int64_t round, const BadEnd&);

  void execute_paced(const Job&);
  const Job* prepared_beside(const Job&, const std::vector<Job>&) const;
  std::optional<int64_t> steps_of_stored(const std::vector<Job>&);

  std::unique_ptr<LiveRun> start(const Job&, const std::filesystem::path& socket) override;
  void has_turn(const Job&) override;
  void tick() override;
  void ended(const Job&, const RunResult&) override;
  void abandoned(const Job&) override;
  int64_t steps_of_round(const std::map<int64_t, RunCost>&) override;
  bool has_enough(const Job&) override;
  bool may_have_enough() const override { return race_.on(); }
  bool counts_when_cut() const override;

  const Experiment& experiment_;
  const RunRequest& request_;
  Runs& runs_;
  const std::filesystem::path folder_;
  Interrupts& interrupts_;
  Progress& progress_;
  Journal journal_;
  StoredResults stored_;
  RunStarter starter_;
  std::map<std::string, std::string> executed_;  ///< identities of finished runs, by id
  std::set<std::string> under_way_;              ///< ids of started runs that have not ended
  std::optional<LaterRuns> later_;               ///< none: must be counted again, because plans have changed
  MeasuredMemory measured_memory_;               ///< measured in earlier rounds
  bool interleaved_ = false;                     ///< whether the runs being started are interleaved
  std::set<int64_t> alone_;                      ///< variants that were out of memory beside others
  Pacer pacer_;                            ///< for the current round; empty: runs make all of their steps
  std::optional<int64_t> steps_of_round_;  ///< result of pacer_
  LossRace race_;                          ///< for the current round
  const Job* next_ = nullptr;              ///< the run for which a worker opens the GPU; null: none
  bool all_ok_ = true;
  int64_t started_ = 0;
};
}  // namespace optrush
