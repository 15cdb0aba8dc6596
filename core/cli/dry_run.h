#pragma once
#include <filesystem>
#include <vector>

#include "cli/overrides.h"
#include "launch/conductor.h"
#include "script/host.h"

namespace optrush {
/// Shows what a script's experiments would run, and starts nothing but the workers that plan.
class DryRunHost : public ScriptHost {
 public:
  DryRunHost(RunRequest request, Overrides overrides, bool as_json);

  std::filesystem::path run(const Experiment&) override;
  void report(const std::filesystem::path&) override {}

  /// Prints the JSON of all experiments, if that was asked for.
  void finish() const;
  /// Every variant has a plan.
  bool all_ok() const { return all_ok_; }

 private:
  RunRequest request_;
  Overrides overrides_;
  bool as_json_;
  Json experiments_ = Json::array();
  bool all_ok_ = true;
};

/// One experiment of a dry run, expanded and planned.
Json dry_run(const Experiment&, const RunRequest&);
/// The same for people.
std::string dry_run_text(const Json&);
}  // namespace optrush
