#pragma once
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "analysis/numbers/statistics.h"
#include "analysis/time_to_loss.h"
#include "optrush/json.h"
#include "results/run_result.h"

namespace optrush {
struct Analysis;
/// Several reports side by side, as data. The others are compared with the first.
struct ComparedReports {
  struct Report {
    std::string name;  ///< "A", "B", ...
    std::filesystem::path folder;
    std::string headline;               ///< its answer in one sentence
    std::vector<std::string> warnings;  ///< reasons to doubt it
  };
  /// A difference between the reports: in the machine, the base, the script or the plugins.
  struct Fact {
    std::string key;                 ///< "cpu.name"
    std::vector<Json> values;        ///< by report; null: the report does not state it
    std::vector<std::string> texts;  ///< the values as text: "15.6 GiB"
  };
  /// A rung in one report.
  struct Cell {
    Status status = Status::ok;
    std::map<std::string, std::optional<double>> numbers;  ///< compared quantities, by Quantity::csv
    bool trains_on_fewer = false;                          ///< Row::trains_on_fewer()
    std::optional<Ratio> speed;                            ///< tokens/s relative to the first report
    std::optional<Ratio> base_speed;  ///< speed relative to the report's base; none: it is the base
    std::optional<Ratio> over_base;   ///< base_speed relative to the first report's
    std::optional<double> memory_ratio;
    std::string differs;  ///< why the problem differs from the first report's: "8 layers instead of 4"
    std::optional<TimeToLoss> time_to_loss;  ///< relative to the report's own target
  };
  struct Line {
    std::string rung;
    std::vector<std::optional<Cell>> cells;  ///< by report; none: no such rung
  };
  std::vector<Report> reports;
  std::vector<Fact> facts;
  std::vector<Line> lines;  ///< rungs of the first report, then other rungs
};

/// Compares at least two report folders. Rungs are matched by name. `add_answer` sets the headline and the
/// warnings of a report.
ComparedReports compare_reports(const std::vector<std::filesystem::path>& folders,
                                void (*add_answer)(const Analysis&, ComparedReports::Report&));
}  // namespace optrush
