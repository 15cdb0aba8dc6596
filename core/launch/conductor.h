#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/gpu_cards.h"
#include "experiment/experiment.h"
#include "launch/progress.h"

namespace optrush {
class Followers;

/// How to run an experiment.
struct RunRequest {
  std::filesystem::path worker;   ///< optrush-worker
  std::filesystem::path reports;  ///< the folder that gets <experiment>/<label>
  bool resume = false;            ///< go on with the runs that are missing
  bool retry = false;             ///< which those that did not end well are, too
  std::vector<std::string> only;  ///< names of rungs; empty: all
  double plan_timeout_s = 60;
  double probe_s = 0.5;              ///< of each look at the machine's noise between rounds; 0: none
  Followers* followers = nullptr;    ///< the other processes of a launcher's job; null: there are none
  std::optional<PlannedGpu> as_gpu;  ///< of a dry run for a GPU that this machine lacks
};

struct RunOutcome {
  std::filesystem::path folder;
  bool all_ok = true;  ///< every run ended well, or was skipped because the machine lacks what it needs
  int signal = 0;      ///< that ended it early; 0: it came to its end
};

/// Plans, runs and journals every variant of an experiment; whatever becomes of a run is a stored result and
/// never the end of the rest. SIGINT, SIGTERM and SIGHUP end the present run and keep those that are done.
/// The report is not written here. (docs/architecture.md, "Conductor")
RunOutcome run_experiment(const Experiment&, const RunRequest&, Progress&);
}  // namespace optrush
