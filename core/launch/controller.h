#pragma once
#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "experiment/experiment.h"
#include "launch/progress.h"
#include "machine/gpu_cards.h"

namespace optrush {
class Followers;

/// How to run an experiment.
struct RunRequest {
  std::filesystem::path worker;   ///< optrush-worker
  std::filesystem::path reports;  ///< the folder that gets <experiment>/<label>
  bool resume = false;            ///< go on with the runs that are missing
  bool retry = false;             ///< which those that did not end well are, too
  std::vector<std::string> only;  ///< names of rungs; empty: all
  bool skip_missing = false;      ///< rungs whose programs this machine lacks are skipped
  std::string track;              ///< what shows the steps as they are made: tensorboard, wandb; "": nothing
  double plan_timeout_s = 60;
  double probe_s = 0.5;            ///< of each look at the machine's noise between rounds; 0: none
  Followers* followers = nullptr;  ///< the other processes of a launcher's job; null: there are none
  /// context.json of this machine, where it was looked at a moment ago; null: it is looked at.
  Json machine;
  /// When the time limit began; none: it begins with the first run.
  std::optional<std::chrono::steady_clock::time_point> began;
  std::optional<PlannedGpu> as_gpu;  ///< of a dry run for a GPU that this machine lacks
};

struct RunOutcome {
  std::filesystem::path folder;
  bool all_ok = true;   ///< every run ended well, or was skipped because the machine lacks what it needs
  int signal = 0;       ///< that ended it early; 0: it came to its end
  size_t finished = 0;  ///< runs that have a result, of this start or of an earlier one
};

/// Plans, runs and journals every variant of an experiment; whatever becomes of a run is a stored result and
/// never the end of the rest. SIGINT, SIGTERM and SIGHUP end the present run and keep those that are done.
/// The report is not written here. (docs/internals/controller.md)
RunOutcome run_experiment(const Expanded&, const RunRequest&, Progress&);
}  // namespace optrush
