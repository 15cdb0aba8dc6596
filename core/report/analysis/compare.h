#pragma once
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "optrush/json.h"
#include "report/analysis/time_to_loss.h"
#include "report/numbers/statistics.h"
#include "results/run_result.h"

namespace optrush {
/// Several reports side by side, as data. The first one is what the others are compared with.
struct ComparedReports {
  struct Report {
    std::string name;  ///< "A", "B", ...
    std::filesystem::path folder;
    std::string headline;  ///< its answer in one sentence
  };
  /// What is not the same in all of them: of the machine, the base, the script, the plugins.
  struct Fact {
    std::string key;                 ///< "cpu.name"
    std::vector<Json> values;        ///< by report; null: it does not say
    std::vector<std::string> texts;  ///< the same for people: "15.6 GiB"
  };
  /// A rung as one report has it.
  struct Cell {
    Status status = Status::ok;
    std::map<std::string, std::optional<double>> numbers;  ///< by Quantity::csv, of those that are compared
    bool trains_on_fewer = false;  ///< tokens than it processes, or it processes padding
    std::optional<Ratio> speed;    ///< tokens/s over the first report's
    std::optional<double> memory_ratio;
    std::string differs;  ///< why it is another problem than in the first: "8 layers instead of 4"
    std::optional<TimeToLoss> time_to_loss;  ///< to its own report's target
  };
  struct Line {
    std::string rung;
    std::vector<std::optional<Cell>> cells;  ///< by report; none: it has no such rung
  };
  std::vector<Report> reports;
  std::vector<Fact> facts;
  std::vector<Line> lines;  ///< rungs of the first report, then others
};

/// How each of the others compares with the first, a sentence each: what is faster and slower for sure, in
/// rungs that both have and that solve one problem.
std::string headline(const ComparedReports&);

/// At least two folders of reports. Rungs belong together by their names.
ComparedReports compare_reports(const std::vector<std::filesystem::path>& folders);
}  // namespace optrush
