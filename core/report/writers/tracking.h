#pragma once
#include <filesystem>
#include <string>

#include "analysis/analysis.h"

namespace optrush {
/// Every run of a report that made steps, in one form for all trackers: {"experiment", "runs": [{"id",
/// "rung", "purpose", "round", "hyperparameters": {name: scalar}, "steps": [{"step", "seconds", "values":
/// {"loss": 5.5, ...}}], "summary": {name: number}}]}. Hyperparameters are the spec: the stack, each option
/// of a plugin, model, training, device. The summary has the run's speed, phases and memory and, under
/// "rung/", values of its rung over all rounds, such as speedups with their intervals. Values that were not
/// measured are left out.
Json tracked_runs(const Analysis&);

/// runs.csv has one line per run, steps.csv one line per step. Numbers have all digits; an empty field is not
/// known.
std::string runs_csv(const Analysis&);
std::string steps_csv(const Analysis&);

/// Writes the runs below `folder` for `tracker` (csv, tensorboard or wandb): CSV files (with rungs.csv, the
/// columns of results.csv), event files in one folder per run for `tensorboard --logdir`, or offline runs for
/// `wandb sync`. Throws an Error if the folder is not empty (CSV files are replaced) or the tracker's Python
/// package is missing; the remedy is to install it.
void write_tracked(const Analysis&, const std::string& tracker, const std::filesystem::path& folder);
}  // namespace optrush
