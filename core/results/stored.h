#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "experiment/experiment.h"
#include "results/journal.h"
#include "results/noise_line.h"
#include "results/result_text.h"
#include "results/tried.h"

namespace optrush {
struct StoredRun {
  std::string id;  ///< name of the run's folder
  RunSpec spec;
  RunResult result;
  /// Traces of a step, one per rank: paths relative to the report's folder
  std::vector<std::string> traces = {};
};

/// A report's folder. Runs without a result are left out.
struct Stored {
  std::filesystem::path folder;
  Experiment experiment;
  std::vector<Variant> variants;
  Plans plans;
  Json context = Json::object();
  std::vector<StoredRun> runs;      ///< in order of ids
  std::vector<NoiseLine> probes;    ///< probes of the machine's noise
  std::optional<Tried> tried = {};  ///< none: there was no search

  const Variant& variant(int64_t index) const { return variants[static_cast<size_t>(index)]; }
  const std::optional<Plan>& plan(int64_t variant) const { return plans[static_cast<size_t>(variant)]; }
};

/// Reads a report's folder. Its runs are the folders in `runs`, or the lines of runs.jsonl in a published
/// report. Reading is strict: an Error names the invalid file. Plans, context and runs may be missing,
/// because an experiment may end at any moment.
Stored load_report(const std::filesystem::path& folder, const ResultParts& = ResultParts::of_report());

/// The folders in a folder, sorted; none if it does not exist.
std::vector<std::filesystem::path> folders_in(const std::filesystem::path& folder);

/// Reads these folders of runs, in their order. `plans`: of the report; a result keeps its own plan if they
/// lack it. An invalid or changed run is left out if `skip_invalid`, otherwise an Error.
std::vector<StoredRun> load_runs(const std::vector<std::filesystem::path>& folders, const Journal&,
                                 const Plans&, const ResultParts&, bool skip_invalid = false);
/// A plan that was made too late for `plans` is in the result. Moves it there.
void move_late_plan(StoredRun&, Plans&);
}  // namespace optrush
