#pragma once
#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "experiment/experiment.h"
#include "machine/gpu_cards.h"
#include "optrush/json.h"

namespace optrush {
class ForkServer;
class Progress;
class RemoteRanks;

/// How to run an experiment.
struct RunRequest {
  std::filesystem::path worker;   ///< optrush-worker
  ForkServer* workers = nullptr;  ///< makes the plans; null: one of the experiment
  std::filesystem::path reports;  ///< the folder that gets <experiment>/<label>
  bool resume = false;            ///< make only the missing runs
  bool retry = false;             ///< with resume: also repeat runs that failed
  std::vector<std::string> only;  ///< names of rungs; empty: all
  bool skip_missing = false;      ///< rungs whose programs this machine lacks are skipped
  std::string track;              ///< tracker during the runs: tensorboard, wandb; "": none
  double plan_timeout_s = 300;
  double probe_s = 0.5;                 ///< seconds of each noise probe between rounds; 0: no probe
  RemoteRanks* remote_ranks = nullptr;  ///< the other processes of a launcher's job; null: there are none
  /// context.json of this machine, if it was just measured; null: the controller measures it.
  Json machine;
  /// Start of the time limit; none: the first run starts it.
  std::optional<std::chrono::steady_clock::time_point> began;
  std::optional<PlannedGpu> as_gpu;  ///< the GPU that a dry run plans for
};

/// How it ended.
struct RunOutcome {
  std::filesystem::path folder;
  bool all_ok = true;  ///< every run ended well, or the machine lacks a requirement of it
  int signal = 0;      ///< signal that ended it early; 0: none
};

/// Runs an experiment: a loop that asks next() what to do, does it, and records the result in the Ledger. A
/// run that fails is a stored result. SIGINT, SIGTERM and SIGHUP end the current run and keep the finished
/// ones. It does not write the report. (docs/internals/controller.md)
RunOutcome run_experiment(const Expanded&, const RunRequest&, Progress&);
}  // namespace optrush
