#pragma once
#include <filesystem>

#include "cli/asking_host.h"
#include "cli/overrides.h"
#include "launch/controller.h"
#include "script/host.h"

namespace optrush {
enum class DryRunForm : uint8_t {
  text,
  json,
  costs  ///< costs of a step on a GPU for each variant, as a Markdown table
};

/// Shows what a script's experiments would run. Starts only workers that plan.
class DryRunHost : public AskingHost {
 public:
  DryRunHost(RunRequest request, Overrides overrides, DryRunForm form);

  std::filesystem::path run(const Experiment&) override;
  void report(const std::filesystem::path&) override {}

  /// Prints the JSON of all experiments, if it was requested.
  void finish() const;
  /// Whether every variant has a plan.
  bool all_ok() const { return all_ok_; }

 private:
  RunRequest request_;
  Overrides overrides_;
  DryRunForm form_;
  Json experiments_ = Json::array();
  bool all_ok_ = true;
};
}  // namespace optrush
