#pragma once
#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "experiment/experiment.h"
#include "report/analysis/analysis.h"

namespace optrush::test {
/// What the runs of one rung are to look like.
struct Outcome {
  double tokens_per_second = 1000;
  double scatter = 0.004;  ///< of a round's speed
  double peak_bytes = 1 << 30;
  double loss_error = 0;        ///< relative, from the second step on
  double probe_loss_error = 0;  ///< the same in its probe
  double grad_norm = 1.5;
  double norm_factor = 1;  ///< on it, but not in its reference
  double flops_per_token = 1e9;
  double padding = 0;  ///< part of the positions
  double trained = 1;  ///< part of the tokens that are processed
  bool falls = true;
  std::string status = "ok", reason;
  int64_t bad_round = -1;                                ///< the round that has `status`; -1: all
  int64_t rounds = std::numeric_limits<int64_t>::max();  ///< that were run
  bool has_plan = true, has_extra_runs = true;
  bool reproducible = true;  ///< false: rounds differ in their last digits
  // Of several ranks:
  double exposed_share = 0.2;  ///< of a step that is communication which nothing hides
  double straggler = 1;        ///< how much longer the last rank is busy
  int64_t threads = 0;         ///< of each rank's operators; 0: it does not tell
};

/// SYNTHETIC: a report's folder with made-up numbers, as if an experiment had run. No number in it was
/// measured.
struct SyntheticReport {
  Experiment experiment;
  std::set<std::string> refused;  ///< rungs that can't be stacked
  bool equals_run_once = false;  ///< stacks that are the same have one variant's runs, as the controller does
  Json context;
  std::map<std::string, Outcome> outcomes;  ///< by rung; the default elsewhere
  double drift_tokens_per_second = 0;       ///< of the base's last run; 0: it did not run

  SyntheticReport(const std::string& name, int64_t rounds);
  SyntheticReport& ladder(std::vector<Rung> rungs);
  /// The outcome of a rung, to be changed.
  Outcome& operator[](const std::string& rung) { return outcomes[rung]; }
  void write(const std::filesystem::path& folder) const;

  Plans plans(const std::vector<Variant>&) const;
};

/// Eleven rungs with everything that can happen to a rung.
SyntheticReport long_ladder();
/// Base, one rung that pays and one that does not.
SyntheticReport short_ladder();
/// The same with a loss on held-out data, a target that one rung misses, numbers of plugins, and traces.
SyntheticReport validated();
SyntheticReport ablation();
/// Base and "one", "two", "three" on top of each other, three rounds.
SyntheticReport three_rungs();
/// Two strategies over one to four ranks, one of them also with a global batch that stays; a rung with a
/// straggler and one that failed.
SyntheticReport scaling();
/// Two choices over four lengths, one of which does not fit; with a view.
SyntheticReport grid();

Rung rung(std::string name, std::string plugin, Json options = Json::object());
Rung setting(std::string name, Json settings);

/// Of the report as it is written to a folder.
Analysis analysis_of(const SyntheticReport&);

/// The row of that name; throws where there is none.
const Row& row(const Analysis&, const std::string& name);
}  // namespace optrush::test
