#pragma once
#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "analysis/analysis.h"
#include "experiment/experiment.h"

namespace optrush::test {
/// The runs of one rung.
struct Outcome {
  double tokens_per_second = 1000;
  double scatter = 0.004;  ///< relative scatter of a round's speed
  double peak_bytes = 1 << 30;
  double loss_error = 0;        ///< relative, from the second step on
  double probe_loss_error = 0;  ///< the same, for the probe
  double grad_norm = 1.5;
  double norm_factor = 1;  ///< factor on the norm of the rung, but not of its reference
  double flops_per_token = 1e9;
  double padding = 0;  ///< fraction of positions
  double trained = 1;  ///< fraction of processed tokens
  bool falls = true;
  std::string status = "ok", reason;
  int64_t bad_round = -1;                                ///< the round that has `status`; -1: all
  int64_t rounds = std::numeric_limits<int64_t>::max();  ///< number of finished rounds
  bool has_plan = true, has_extra_runs = true;
  bool reproducible = true;  ///< false: rounds differ in their last digits
  // For several ranks:
  double exposed_share = 0.2;  ///< fraction of a step that is exposed communication
  double straggler = 1;        ///< factor by which the last rank is busy longer
  int64_t threads = 0;         ///< of each rank's operators; 0: unknown
};

/// SYNTHETIC: a report's folder with made-up numbers. No number in it was measured.
struct SyntheticReport {
  Experiment experiment;
  std::set<std::string> refused;  ///< names of refused rungs
  bool equals_run_once = false;   ///< equal stacks share the runs of one variant, as in the controller
  Json context;
  std::map<std::string, Outcome> outcomes;  ///< by rung; other rungs have the default
  double drift_tokens_per_second = 0;       ///< of the base's last run; 0: no such run

  SyntheticReport(const std::string& name, int64_t rounds);
  SyntheticReport& ladder(std::vector<Rung> rungs);
  /// The outcome of a rung, for changes.
  Outcome& operator[](const std::string& rung) { return outcomes[rung]; }
  void write(const std::filesystem::path& folder) const;

  Plans plans(const std::vector<Variant>&) const;
};

/// Eleven rungs with every kind of outcome.
SyntheticReport long_ladder();
/// The base, a rung that gains speed and a rung that does not.
SyntheticReport short_ladder();
/// short_ladder() with validation, a target loss that one rung misses, counters of plugins, and traces.
SyntheticReport validated();
SyntheticReport ablation();
/// The base and "one", "two", "three" on top of each other, with three rounds.
SyntheticReport three_rungs();
/// Two strategies on one to four ranks, one of them with strong scaling as well. One rung has a straggler,
/// and one failed.
SyntheticReport scaling();
/// Two choices over four lengths, with a view. One combination is out of memory.
SyntheticReport grid();

Rung rung(std::string name, std::string plugin, Json options = Json::object());
Rung setting(std::string name, Json settings);

/// The analysis of the report after writing it to a folder.
Analysis analysis_of(const SyntheticReport&);
/// Runs of a report's folder as runs.jsonl of a published report.
std::string packed(const std::filesystem::path& folder, const std::vector<StoredRun>&);

/// The checks of all variants that have a plan.
std::vector<GateCheck> plan_gate(const std::vector<Variant>&, const Plans&);

/// The row with this name. Throws if there is none.
const Row& row(const Analysis&, const std::string& name);
}  // namespace optrush::test
