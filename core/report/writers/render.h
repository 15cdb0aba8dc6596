#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/descriptor.h"
#include "base/temporary_folder.h"
#include "process/process.h"
#include "report/writers/writers.h"

namespace optrush {
/// The process that draws the charts of a report, with the project's Python (scripts/charts). Its libraries
/// load while the caller reads and analyses the runs. The process ends with the object.
class ChartProcess {
 public:
  /// Starts it for the report in `folder`. finish() returns the reason if that fails.
  explicit ChartProcess(std::filesystem::path folder);
  /// Lets it draw `charts` into the folder as <name>.svg (and .png), and write report.html from `page` and
  /// the charts.
  void begin(const Analysis&, const std::vector<Chart>& charts, const std::string& page, bool png);
  /// Waits for what begin() asked for. Returns the reason if it failed; "" otherwise.
  std::string finish();

 private:
  void start();
  std::filesystem::path job() const { return *scratch_ / "job.json"; }
  std::filesystem::path log() const { return *scratch_ / "log.txt"; }

  std::filesystem::path folder_, python_;
  std::optional<TemporaryFolder> scratch_;
  Descriptor input_;     ///< of the process, which waits until this is closed
  std::string problem_;  ///< why the process did not start
  std::optional<Process> process_;
};
}  // namespace optrush
