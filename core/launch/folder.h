#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/descriptor.h"
#include "experiment/experiment.h"
#include "experiment/plan.h"

namespace optrush {
/// reports/<experiment>/<label>. Throws an Error if one of them can't be a folder's name.
std::filesystem::path report_folder(const std::filesystem::path& reports, const Experiment&);

/// Creates a report's folder and keeps other controllers out of it while the result lives. Throws an Error if
/// another process holds the lock.
[[nodiscard]] Descriptor lock_folder(const std::filesystem::path& folder);

bool has_report(const std::filesystem::path& folder);
/// Clears the folder if a new report replaces the old one. Notes lost rounds, a lost report of another
/// script, and that there is none to resume. Throws an Error if a report would be lost, or was started with
/// other arguments or more rounds.
std::filesystem::path begun_report(const std::filesystem::path& folder, const Experiment&, bool resume,
                                   std::vector<std::string>& notes);
/// Throws an Error if a new report must not replace the one in the folder.
void check_replaceable(const std::filesystem::path& folder, const Experiment&);
/// Moves runs/NAME of a report to replaced/NAME (or NAME.2 if that exists), where no report counts it.
void archive_run(const std::filesystem::path& run);

/// The disk of a report's folder, with the states that its runs will save in the order of the runs.
class DiskSpace {
 public:
  /// `folder`: of the report; it need not exist.
  explicit DiskSpace(std::filesystem::path folder) : folder_(std::move(folder)) {}

  /// Counts the states of a run in `run_folder`. Returns why the disk has too little space for them; "" if it
  /// has enough, or if the run has ended. Such a run is not counted.
  std::string lacking(const PlannedSaving&, const std::filesystem::path& run_folder);

 private:
  std::filesystem::path folder_;
  double reserved_ = 0;  ///< bytes that earlier runs will keep
};
/// Bytes per second with which the run that saved last on this machine wrote its states, of all reports in
/// this folder; none if there is no such run.
std::optional<double> write_rate(const std::filesystem::path& reports);
}  // namespace optrush
