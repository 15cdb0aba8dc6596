#pragma once
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "analysis/gate/gate.h"
#include "experiment/experiment.h"
#include "results/run_result.h"
#include "results/stored.h"

namespace optrush {
/// A run to start.
struct Job {
  std::string id;                         ///< run_id(), the name of its folder
  RunSpec spec;                           ///< with round and purpose
  std::optional<External> external = {};  ///< a program that trains instead of the worker
  /// The first step of an interrupted run that continues from its saved state.
  std::optional<int64_t> from_step = {};
};
/// A hash of a job's spec and of its external command. A change makes another run.
std::string identity_of(const Job&);

/// Whether the controller can control the steps of a job individually.
bool knows_interleaving(const Job&, bool launched);

/// Whether a run saves states from which it can continue.
bool saves_state(const Job&);
/// Whether a run is trained for its result, so that it makes all of its steps.
bool is_wanted_whole(const Experiment&, const RunSpec&);
/// Whether a run may end before its last step.
bool can_be_cut(const Experiment&, const Job&, bool launched);

/// Peak bytes of a process by variant, on a CPU; for several ranks, of the largest.
using MeasuredMemory = std::map<int64_t, double>;
/// Records the peak of a job's result, if it is a measurement of a round.
void note_peak(const Job&, const RunResult&, MeasuredMemory&);

/// What determines how long a run of an experiment takes.
struct Work {
  Purpose purpose = Purpose::measure;  ///< a drift run counts as one of the base
  int64_t variant = 0;
  int64_t steps = 0;  ///< number of steps, warm-up included
  auto operator<=>(const Work&) const = default;
};
Work work_of(const RunSpec&);

/// The number of rounds; none: open.
std::optional<int64_t> rounds_of(const Experiment&);

/// The spec of a variant in a round. `seeds`: of each round; empty: of the spec.
RunSpec in_round(RunSpec, int64_t round, const std::vector<int64_t>& seeds);

/// The base again at the end, with enough steps to show whether the machine's speed has changed.
RunSpec drift_of(RunSpec base);

/// The jobs of an experiment in the order of starting. Variants without a plan have none, and neither have
/// variants that share another variant's runs.
class Schedule {
 public:
  /// `only`: names or patterns ("fused*", "[ab]?") of the wanted rungs; empty: all. The base is always
  /// included. An Error names the nearest rung.
  Schedule(const std::vector<Variant>&, const Experiment&, const std::vector<std::string>& only);

  /// Whether the number of rounds is open.
  bool open() const { return !rounds_; }

  /// Whether this variant, or another with the same runs, is wanted.
  bool wanted(const Variant&) const;
  /// Names of the rungs that `only` selects; empty: all.
  const std::vector<std::string>& only() const { return only_; }
  /// The jobs of a round: every variant once (A B C A B C), so that a machine's drift cancels.
  std::vector<Job> round(int64_t round, const Plans& plans) const;
  /// The additional runs of the gate for a variant, which must have a plan; none if the variant shares
  /// another's runs, where they are checked. `repeat`: with a second run of its reference, if only that can
  /// decide the check.
  std::vector<Job> gate(const Plans& plans, const Variant&, bool repeat = false) const;
  /// The base again, after `rounds` rounds; none if nothing is compared with it, if `interleave = true`
  /// compares every run with runs of the same time, or if it saves states: it would take as long again.
  std::vector<Job> drift(const Plans& plans, int64_t rounds) const;
  /// First round, gate, other rounds (unless their number is open), drift.
  std::vector<Job> all(const Plans& plans) const;

  Job measured(const Variant&, int64_t round) const;
  /// "round 2/3", "round 2", "round 2/3, seed 7", "gate probe", "drift".
  std::string describe(const RunSpec&) const;

 private:
  Job job(RunSpec, Purpose, int64_t round) const;

  const std::vector<Variant>& variants_;
  std::optional<int64_t> rounds_;
  bool trace_, interleaved_;
  std::vector<int64_t> seeds_;
  std::vector<std::string> only_;
};

/// What a time limit has decided. It holds for the round and for later ones.
struct Limit {
  std::optional<int64_t> steps;  ///< most timed steps of a run; none: all of its spec
  std::set<int64_t> left_out;    ///< variants without further runs
  double slower = 1;             ///< wall time of a round / sum of the times of its runs
  bool tight = false;  ///< runs are shortened or variants left out: the base does not run again at the end
  bool noted = false;  ///< the user knows why
};

/// A round: the decisions about it, and its progress.
struct Round {
  int64_t number = 0;
  bool over = false;                   ///< there is no such round: only the base runs again at the end
  std::vector<int64_t> variants = {};  ///< those that are chosen for it; empty: all
  std::vector<Job> jobs = {};          ///< in the order of the script
  std::vector<Job> interleaved = {};   ///< those that run step by step with each other
  /// Whether `steps` limits its runs. If `steps` is then none, it follows from the times of its first runs.
  bool paced = false;
  std::optional<int64_t> steps = {};  ///< most timed steps of a run
  Limit limit = {};
  std::string note = {};  ///< of the limit, for the user; "": none

  bool begun_before = false;           ///< an earlier start began it
  bool any = false;                    ///< not all of its runs were stored
  bool interleaving_done = false;      ///< the interleaved runs have ended
  bool ended = false;                  ///< all of its runs have ended
  bool checked = false;                ///< the gate has checked the rows after it
  std::optional<double> seconds = {};  ///< its wall time; none: not known, or not of all its runs
};

/// How long jobs will take.
struct TimeEstimate {
  double seconds = 0;  ///< seconds of the runs with an estimate
  size_t known = 0, all = 0;
};

/// Estimates the time of jobs. A stored run is used for a job if their specs differ only in round, purpose,
/// place and number of steps: it provides the times of start, compilation and steps. Other jobs get no
/// estimate.
TimeEstimate estimate_time(const std::vector<Job>&, const Stored&);
}  // namespace optrush
