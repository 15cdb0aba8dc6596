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
/// Lets a script's experiments happen: measures, writes the reports, prints their tables.
class RunHost : public AskingHost {
 public:
  RunHost(RunRequest request, Overrides overrides, std::string resume_hint);

  std::filesystem::path run(const Experiment&) override;
  std::filesystem::path search(const Experiment&, const SearchRequest&) override;
  void report(const std::filesystem::path& folder) override;
  /// Runs the trial, unless a resumed script asks what it asked before.
  std::optional<bool> holds(const MemoryTrial&) override;

  /// Every run ended well and no rung broke the gate.
  bool all_ok() const { return all_ok_; }

 private:
  /// With the command line's overrides.
  Expanded prepared(const Experiment&);
  /// A UsageError where rungs need what this machine lacks, unless those are to be skipped.
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
