#pragma once
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "launch/controller.h"
#include "launch/folder.h"
#include "launch/ledger/resume.h"
#include "launch/schedule/planner.h"
#include "launch/schedule/schedule.h"
#include "results/stored.h"

namespace optrush {
/// The variants of an experiment and their plans.
struct Outline {
  std::vector<Variant> variants;  ///< final after planning
  Schedule schedule;              ///< of these variants
  Plans plans;                    ///< by variant; none: no plan, or no further runs

  Outline(const Expanded&, const std::vector<std::string>& only);
  Outline(const Outline&) = delete;
  Outline& operator=(const Outline&) = delete;
};

/// All that a controller knows about an experiment, in memory. It alone writes the report's folder.
///
///     next(ledger) ──▶ Action ──▶ an actor does it ──▶ an event of the ledger ──▶ next(ledger) ...
///
/// - It reads once what earlier starts left: the journal, the variants, plans and context, and the results.
/// - An *event* is the only way to change it. It writes the file (a temporary file, then a rename), then the
///   line of the journal, then memory. After a kill at any point, the next start finds the run complete or
///   not started. (Files that change, such as context.json, are announced by their line: results/journal.h.)
/// - A *query* reads memory. No file that this process has written is read back.
class Ledger {
 public:
  /// Locks the folder. Clears it if a new report replaces the old one (begun_report).
  Ledger(const Expanded&, const RunRequest&);
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  // What is known.
  const Experiment& experiment() const { return experiment_; }
  const std::vector<Variant>& variants() const { return outline_.variants; }
  const Variant& variant(int64_t index) const { return variants().at(static_cast<size_t>(index)); }
  const Schedule& schedule() const { return outline_.schedule; }
  const Plans& plans() const { return outline_.plans; }
  const std::optional<Plan>& plan_of(const Job& job) const {
    return plans().at(static_cast<size_t>(job.spec.variant));
  }
  const Json& context() const { return context_; }
  const std::filesystem::path& folder() const { return folder_; }
  std::filesystem::path run_folder(const std::string& id) const { return folder_ / "runs" / id; }
  Stored stored() const;

  // Queries.
  bool inspected() const { return inspected_; }
  bool planned() const { return planned_; }
  const std::optional<Round>& round() const { return round_; }
  /// Variants with a run of this round that an earlier start began.
  std::vector<int64_t> begun(int64_t round) const;
  /// Whether the experiment has ended, and nothing was started since.
  bool came_to_end() const { return journal_.came_to_end(); }
  /// Whether the run has ended, in this start or by accept().
  bool done(const Job&) const;
  const RunResult& result(const Job& job) const { return runs_.at(job.id).result; }
  /// Whether an earlier start left a result of the job that counts.
  bool is_stored(const Job& job) const { return complete(job, nullptr) != nullptr; }
  /// Whether a time limit has shortened a run, in any start.
  bool any_cut() const;
  /// The number of rounds after which noise was probed last; none: not in this start.
  const std::optional<int64_t>& probed() const { return probed_; }
  const MeasuredMemory& measured_memory() const { return measured_memory_; }
  /// Variants that were out of memory beside others.
  const std::set<int64_t>& alone() const { return alone_; }
  const std::vector<JournalEntry>& restarts(const Job& job) const { return journal_.of(job.id).restarts; }
  size_t started_runs() const { return done_.size() + under_way_.size(); }
  /// The kinds of the known runs that are neither ended nor under way.
  const std::map<std::string, Work>& later() const;
  bool all_ok() const { return all_ok_; }
  /// What has changed since the run saved its state, so that it can't continue from it; "": nothing.
  std::string change_since_state(const Json& record, const Job&) const;

  // Events of the experiment.
  /// The variants as they are before planning, unless an earlier start wrote them.
  void begin_report();
  void describe(Json context);
  /// The variants, schedule and plans, which planning completes.
  Outline& outline() { return outline_; }
  /// Rungs that were refused when the stored variants were written.
  std::set<std::string> refused_before() const;
  /// Plans were made. Reads the stored runs, and stores an end for runs that can't start.
  void plan(const NoPlans&);
  /// A round begins, or the rounds are over. Accepts its stored runs.
  void begin_round(Round);
  void limit_steps(int64_t steps, bool tight);
  void probe(int64_t rounds) { probed_ = rounds; }
  /// A group of the round is about to start. Its stored results are moved to replaced/: steps are compared
  /// within one group. All specs are stored before the first start, so that an interrupted round is complete.
  void begin_interleaving(const std::vector<Job>&);
  void end_interleaving() { round_->interleaving_done = true; }
  void end_round(std::optional<double> seconds);
  void check_gate() { round_->checked = true; }
  void end() { journal_.append({.event = JournalEntry::Event::ended}); }
  void interrupt(const std::string& why) {
    journal_.append({.event = JournalEntry::Event::interrupted, .reason = why});
  }

  // Events of a run.
  /// Counts a stored result of the job as its end, if it is complete; otherwise null.
  const RunResult* accept(const Job&);
  void start(const Job&);
  /// A fault ended it, and it starts again with the state of `kept` of its `made` steps.
  void restart(const Job&, const RunResult&, int64_t made, int64_t kept);
  void finish(const Job&, RunResult);
  /// It was ended without a result.
  void abandon(const Job&);
  void run_alone(const Job& job) { alone_.insert(job.spec.variant); }

  /// What the events since the last call mean for the user.
  std::vector<std::string> take_notes() { return std::exchange(notes_, {}); }

 private:
  const RunResult* valid(const Job&, std::string* why_not) const;
  const RunResult* complete(const Job&, std::string* why_not) const;
  bool continues(const Variant&) const;
  void settle(const Job&, const RunResult&);
  void cannot_run(const Variant&, const BadEnd&);
  void drop(const Variant&, const std::string& why);
  void forget_plans(const Variant&);
  void store_unstarted(const Variant&, int64_t round, const BadEnd&);
  void keep(const Job&, RunResult);
  void write_variants();
  void read_runs();

  const Experiment& experiment_;
  const RunRequest& request_;
  Outline outline_;
  const std::filesystem::path folder_;
  const Descriptor lock_;
  std::vector<std::string> notes_;
  Journal journal_;
  std::optional<std::vector<Variant>> variants_before_;  ///< of an earlier start; none: none are valid
  Json plans_before_;                                    ///< null: none are valid
  Json context_;
  bool inspected_ = false, planned_ = false;
  Plans all_plans_;                        ///< also of variants without further runs
  std::map<std::string, StoredRun> runs_;  ///< runs with a result, by id
  std::set<std::string> begun_;            ///< ids of runs that an earlier start began
  mutable InputFiles inputs_;

  std::optional<Round> round_;
  std::map<std::string, std::string> done_;                   ///< identities of ended runs, by id
  std::set<std::string> under_way_;                           ///< ids of started runs that have not ended
  mutable std::optional<std::map<std::string, Work>> later_;  ///< none: must be counted again
  MeasuredMemory measured_memory_;
  std::set<int64_t> alone_;
  std::optional<int64_t> probed_;
  bool all_ok_ = true;
};
}  // namespace optrush
