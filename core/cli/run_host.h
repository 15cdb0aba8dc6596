#pragma once
#include <optional>
#include <set>
#include <utility>

#include "analysis/analysis.h"
#include "cli/asking_host.h"

namespace optrush {
/// Runs a script's experiments: measures, writes the reports and prints their tables.
class RunHost : public AskingHost {
 public:
  RunHost(RunRequest request, Overrides overrides, std::string resume_hint)
      : AskingHost(std::move(request), std::move(overrides)), resume_hint_(std::move(resume_hint)) {}

  std::filesystem::path run(const Experiment&) override;
  std::filesystem::path search(const Experiment&, const SearchRequest&) override;
  void report(const std::filesystem::path& folder) override;
  /// Runs the trial, unless a resumed script has its answer.
  std::optional<bool> holds(const MemoryTrial&) override;

 private:
  /// Throws an Error if the script runs the same report twice.
  Expanded prepared_once(const Experiment&);
  /// Throws a UsageError if rungs need something that this machine lacks, unless such rungs shall be skipped.
  void check_needs(const Expanded&) const;
  /// Writes the report.
  std::filesystem::path conclude(const RunOutcome&, Progress&);

  std::string resume_hint_;
  std::set<std::filesystem::path> folders_;
  std::optional<std::pair<std::filesystem::path, Analysis>> written_;  ///< the last report, for `report()`
};
}  // namespace optrush
