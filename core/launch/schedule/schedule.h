#pragma once
#include <optional>
#include <string>
#include <vector>

#include "experiment/experiment.h"
#include "experiment/gate.h"

namespace optrush {
/// One worker to start.
struct Job {
  std::string id;                         ///< run_id(): the name of its folder
  RunSpec spec;                           ///< with its round and purpose
  std::optional<External> external = {};  ///< what trains instead of the worker
  /// First step of a run that was interrupted and continues from its saved state.
  std::optional<int64_t> from_step = {};
};
/// Of a job's spec, and of the external command where there is one: another one is another run.
std::string identity_of(const Job&);

/// The number of rounds; none: it is left open.
std::optional<int64_t> rounds_of(const Experiment&);

/// The base once more, after everything else: enough steps to show whether the machine's speed has changed.
RunSpec drift_of(RunSpec base);

/// Which jobs an experiment is made of, in the order of starting. Variants whose plan is null have none, and
/// those whose runs are another's.
class Schedule {
 public:
  /// `only` names the rungs that are wanted, each or as a pattern ("fused*", "[ab]?"); empty: all. The base
  /// is always among them. An Error names the nearest rung.
  /// `trace`: of each measured first round.
  Schedule(const std::vector<Variant>&, std::optional<int64_t> rounds, const std::vector<std::string>& only,
           bool trace = false);

  /// Whether it is not known how many rounds there will be.
  bool open() const { return !rounds_; }

  /// Also where only another variant with the same runs is.
  bool wanted(const Variant&) const;
  /// Names of the rungs that `only` chose; empty: all.
  const std::vector<std::string>& only() const { return only_; }
  /// Every variant once: rounds are interleaved (A B C A B C), so that a machine's drift cancels.
  std::vector<Job> round(int64_t round, const Plans& plans) const;
  /// Of an open number: a round of these variants, which is part of all() from now on.
  std::vector<Job> begin_round(int64_t round, const std::vector<int64_t>& chosen, const Plans& plans);
  /// The extra runs that the correctness gate needs for one variant, which has a plan; none for one whose
  /// runs are another's, as they are checked there.
  std::vector<Job> gate(const Plans& plans, const Variant&) const;
  /// The reference of a variant once more, where only that can decide whether it is sound.
  std::vector<Job> repeat(const Plans& plans, const Variant&) const;
  /// The base once more; none where nothing is compared with it, or where it saves its state: that is a
  /// training and no measurement, and would take as long again.
  std::vector<Job> drift(const Plans& plans) const;
  /// First round, gate, the other rounds (of an open number those that were begun), drift.
  std::vector<Job> all(const Plans& plans) const;

  Job measured(const Variant&, int64_t round) const;
  /// "round 2/3", "round 2", "gate probe", "gate reference", "drift": which of its runs a job is.
  std::string describe(const RunSpec&) const;

 private:
  Job job(RunSpec, Purpose, int64_t round) const;

  const std::vector<Variant>& variants_;
  std::optional<int64_t> rounds_;
  std::vector<Job> begun_;  ///< of the rounds after the first, where their number is open
  std::vector<std::string> only_;
  bool trace_;
};
}  // namespace optrush
