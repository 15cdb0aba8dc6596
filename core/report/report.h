#pragma once
#include <filesystem>
#include <optional>
#include <string>

#include "report/analysis/analysis.h"

namespace optrush {
struct ReportOptions {
  bool png = false;                   ///< the charts as PNG, too
  std::optional<double> target_loss;  ///< instead of the experiment's
};
struct WrittenReport {
  Analysis analysis;    ///< what it says
  std::string warning;  ///< to be printed: why it has tables only; "": it has its charts
};
/// Writes report.md, results.csv, results.json, report.html and the charts from the results stored in
/// `folder` alone, which are read and analysed once.
WrittenReport write_report(const std::filesystem::path& folder, const ReportOptions& = {});

/// What is stored in `folder`, seen by these options.
Analysis analyze(const std::filesystem::path& folder, const ReportOptions&,
                 const ResultParts& = ResultParts::of_report());
/// The answer, the table of rungs and the findings, for a terminal.
std::string ladder_table(const Analysis&);
}  // namespace optrush
