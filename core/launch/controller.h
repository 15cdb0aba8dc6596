#pragma once
#include <filesystem>

#include "experiment/experiment.h"
#include "launch/progress.h"
#include "launch/run_request.h"

namespace optrush {
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
