#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "report/analysis/analysis.h"

namespace optrush {
/// What else shows training runs, and plain tables.
enum class Tracker : uint8_t { csv, tensorboard, wandb };
/// "csv", "tensorboard", "wandb"; none for another word.
std::optional<Tracker> tracker_of(std::string_view);

/// Every run of a report that made steps, in one form for all trackers:
/// {"experiment", "runs": [{"id", "rung", "purpose", "round", "hyperparameters": {name: scalar},
///   "steps": [{"step", "seconds", "values": {"loss": 5.5, ...}}], "summary": {name: number}}]}
/// Hyperparameters are the spec: the stack, each option of a plugin, model, training, device. The summary has
/// the run's own speed, phases and memory, and under "rung/" what its rung shows over all rounds: the
/// speedups with their intervals. What was not measured is left out.
Json tracked_runs(const Analysis&);

/// A number of one run, for runs.csv and for the summary that trackers show of it ("run/step_seconds").
struct RunQuantity {
  const char* name;
  std::optional<double> (*value)(const RunResult&);
  bool tracked = true;
  bool of_fewer = false;  ///< told where a row trains on fewer tokens than it processes, else left out
};
const std::vector<RunQuantity>& run_quantities();

/// runs.csv: a line a run. steps.csv: a line a step. Numbers are whole; an empty field is not known.
std::string runs_csv(const Analysis&);
std::string steps_csv(const Analysis&);

/// Writes the runs below `folder`: CSV files (with rungs.csv, the columns of results.csv), event files, one
/// folder a run, for `tensorboard --logdir`, or offline runs for `wandb sync`. An Error where the folder
/// holds something already (CSV files are replaced) or the tracker's Python package is missing, which says
/// how to install it.
void write_tracked(const Analysis&, Tracker, const std::filesystem::path& folder);
}  // namespace optrush
