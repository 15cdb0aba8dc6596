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
#include "launch/journal.h"
#include "launch/run/result.h"
#include "launch/run/run_starter.h"
#include "launch/run/stored_results.h"
#include "launch/schedule/later_runs.h"
#include "launch/schedule/schedule.h"
#include "results/stored.h"

namespace optrush {
/// The variants of an experiment, with the knowledge about them during the run.
struct Runs {
  std::vector<Variant> variants;  ///< final once they are planned
  Schedule schedule;              ///< of these variants
  Plans plans;                    ///< none: no plan, or dropped

  Runs(const Expanded&, const std::vector<std::string>& only);
  Runs(const Runs&) = delete;
  Runs& operator=(const Runs&) = delete;
};

/// By what the first runs of a round took, how many timed steps all of it make. Asked once for a round.
using Pacer = std::function<int64_t(const std::map<int64_t, RunCost>&)>;

/// Runs jobs, one by one or interleaved, and stores and journals how they end. What is done already, where
/// the request resumes, is not run again.
class Execution : private InterleavedRound::Host {
 public:
  Execution(const Experiment&, const RunRequest&, Runs&, const std::filesystem::path& folder, Interrupts&,
            Progress&);

  /// How many GPUs this machine has: before the first run.
  void machine_has(int64_t gpus) { starter_.machine_has(gpus); }
  /// One after the other. What they came to, but for those that a signal stopped.
  std::vector<StoredRun> execute(const std::vector<Job>&);
  /// Jobs of one round: those that can be interleaved are, and the others run one after the other. With a
  /// `pacer` all that can be cut make the steps that it says.
  void execute_round(std::vector<Job>, int64_t round, Pacer pacer = {});
  /// Whether a run may end before its last step: no training that is saved, or timed until a loss is reached.
  bool is_wanted_whole(const RunSpec&) const;
  bool can_be_cut(const Job&) const;
  /// No run of this variant can be made now: its plan failed. What it measured before is kept.
  void cannot_run(const Variant&, const BadEnd&);

  bool is_executed(const Job&) const;
  /// Whether a result of it is stored that counts, and the request resumes.
  bool is_done(const Job&);
  std::filesystem::path run_folder(const std::string& id) const { return folder_ / "runs" / id; }
  Journal& journal() { return journal_; }
  bool all_ok() const { return all_ok_; }
  /// How many processes of runs were started.
  int64_t started() const { return started_; }
  /// How many runs have a result, of this start or of an earlier one.
  size_t finished() const { return executed_.size(); }

 private:
  bool counts(const Job&, const RunResult&) const;
  void execute_interleaved(std::vector<Job>, int64_t round);
  std::optional<RunResult> execute(const Job&);
  std::optional<RunResult> stored_result(const Job&);
  void take(const Job&, const RunResult&);
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
  std::optional<int64_t> steps_of_stored(const std::vector<Job>&);

  std::unique_ptr<LiveRun> start(const Job&, const std::filesystem::path& socket) override;
  void has_turn(const Job&) override;
  void tick() override;
  void ended(const Job&, const RunResult&) override;
  void abandoned(const Job&) override;
  int64_t steps_of_round(const std::map<int64_t, RunCost>&) override;
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
  std::map<std::string, std::string> executed_;  ///< runs that have a result: the identity of each, by id
  std::set<std::string> under_way_;              ///< ids of those that have begun and not ended
  std::optional<LaterRuns> later_;               ///< none: plans have changed since they were counted
  MeasuredPeaks peaks_;                          ///< of the rounds before
  bool interleaved_ = false;                     ///< the runs that are being started
  std::set<int64_t> alone_;                      ///< variants that were out of memory beside others
  Pacer pacer_;                                  ///< of the present round; empty: nothing is cut
  std::optional<int64_t> steps_of_round_;        ///< that it has said
  bool all_ok_ = true;
  int64_t started_ = 0;
};
}  // namespace optrush
