#pragma once
#include <filesystem>
#include <optional>
#include <string>

#include "report/analysis.h"

namespace optrush {
struct ReportOptions {
  bool png = false;                   ///< the charts as PNG, too
  std::optional<double> target_loss;  ///< instead of the experiment's
};
/// Writes report.md, results.csv, results.json, report.html and the charts from the results stored in
/// `folder` alone. Where the charts can't be drawn it has tables only; returns the warning to print, else "".
std::string write_report(const std::filesystem::path& folder, const ReportOptions& = {});

/// What is stored in `folder`, seen by these options.
Analysis analyze(const std::filesystem::path& folder, const ReportOptions&);
/// The findings, the ladder and the failures for a terminal.
std::string ladder_table(const Analysis&);
}  // namespace optrush
