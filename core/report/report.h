#pragma once
#include <filesystem>
#include <string>

#include "report/analysis.h"

namespace optrush {
struct ReportOptions {
  bool png = false;  ///< the charts as PNG, too
};
/// Writes report.md, results.csv, results.json, report.html and the charts from the results stored in
/// `folder` alone. Where the charts can't be drawn it has tables only; returns the warning to print, else "".
std::string write_report(const std::filesystem::path& folder, const ReportOptions& = {});

/// The finding, the ladder and the failures for a terminal.
std::string ladder_table(const Analysis&);
}  // namespace optrush
