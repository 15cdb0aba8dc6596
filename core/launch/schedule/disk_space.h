#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include "experiment/plan.h"

namespace optrush {
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
