#pragma once
#include <filesystem>
#include <optional>
#include <string>

#include "analysis/analysis.h"

namespace optrush {
struct ReportOptions {
  bool png = false;                   ///< also write charts as PNG
  std::optional<double> target_loss;  ///< replaces the experiment's target
};
struct WrittenReport {
  Analysis analysis;    ///< content of the report
  std::string warning;  ///< why there are no charts, to be printed; "": there are
};
/// Writes report.md, results.csv, results.json, report.html and the charts from the results stored in
/// `folder`. Results are read and analysed once.
WrittenReport write_report(const std::filesystem::path& folder, const ReportOptions& = {});

/// Analyses the results stored in `folder` with these options.
Analysis analyze(const std::filesystem::path& folder, const ReportOptions&,
                 const ResultParts& = ResultParts::of_report());
/// The answer, the table of rungs and the findings, for a terminal of `width` columns; 0: any.
std::string ladder_table(const Analysis&, size_t width = 0);
}  // namespace optrush
