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
};
/// Of a job's spec, and of the external command where there is one: another one is another run.
std::string identity_of(const Job&);

/// Which jobs an experiment is made of, in the order of starting. Variants whose plan is null have none.
class Schedule {
 public:
  /// `only` names the rungs that are wanted; empty: all. The base is always among them. An Error names the
  /// nearest rung.
  Schedule(const std::vector<Variant>&, int64_t rounds, std::vector<std::string> only);

  bool wanted(const Variant&) const;
  /// Every variant once: rounds are interleaved (A B C A B C), so that a machine's drift cancels.
  std::vector<Job> round(int64_t round, const std::vector<Json>& plans) const;
  /// The extra runs that the correctness gate needs for one variant, which has a plan.
  std::vector<Job> gate(const std::vector<Json>& plans, const Variant&) const;
  /// The reference of a variant once more, where only that can decide whether it is sound.
  std::vector<Job> repeat(const std::vector<Json>& plans, const Variant&) const;
  /// The base once more.
  std::vector<Job> drift(const std::vector<Json>& plans) const;
  /// First round, gate, the other rounds, drift.
  std::vector<Job> all(const std::vector<Json>& plans) const;

  Job measured(const Variant&, int64_t round) const;
  /// "round 2/3", "gate probe", "gate reference", "drift": which of its runs a job is.
  std::string describe(const RunSpec&) const;

 private:
  Job job(RunSpec, const std::string& purpose, int64_t round) const;

  const std::vector<Variant>& variants_;
  int64_t rounds_;
  std::vector<std::string> only_;
};
}  // namespace optrush
