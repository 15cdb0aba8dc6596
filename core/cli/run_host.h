#pragma once
#include <optional>
#include <set>
#include <utility>

#include "cli/asking_host.h"
#include "cli/overrides.h"
#include "launch/controller.h"
#include "report/analysis/analysis.h"
#include "script/host.h"

namespace optrush {
/// Runs a script's experiments: measures, writes the reports and prints their tables.
class RunHost : public AskingHost {
 public:
  RunHost(RunRequest request, Overrides overrides, std::string resume_hint);

  std::filesystem::path run(const Experiment&) override;
  std::filesystem::path search(const Experiment&, const SearchRequest&) override;
  void report(const std::filesystem::path& folder) override;
  /// Runs the trial, unless a resumed script has its answer.
  std::optional<bool> holds(const MemoryTrial&) override;

  /// Whether every run ended well and no rung broke the gate.
  bool all_ok() const { return all_ok_; }

 private:
  /// Applies the overrides of the command line.
  Expanded prepared(const Experiment&);
  /// Throws a UsageError if rungs need something that this machine lacks, unless such rungs shall be skipped.
  void check_needs(const Expanded&) const;
  /// Writes the report.
  std::filesystem::path conclude(const RunOutcome&, Progress&);

  RunRequest request_;
  Overrides overrides_;
  std::string resume_hint_;
  std::set<std::filesystem::path> folders_;
  std::optional<std::pair<std::filesystem::path, Analysis>> written_;  ///< the last report, for `report()`
  bool all_ok_ = true;
};
}  // namespace optrush
