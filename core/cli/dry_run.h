#pragma once
#include <filesystem>

#include "cli/asking_host.h"

namespace optrush {
enum class DryRunForm : uint8_t {
  text,
  json,
  costs  ///< costs of a step on a GPU for each variant, as a Markdown table
};

/// Shows what a script's experiments would run. Starts only workers that plan.
class DryRunHost : public AskingHost {
 public:
  DryRunHost(RunRequest request, Overrides overrides, DryRunForm form)
      : AskingHost(std::move(request), std::move(overrides), true), form_(form) {}

  std::filesystem::path run(const Experiment&) override;
  void report(const std::filesystem::path&) override {}

  /// Prints the JSON of all experiments, if it was requested.
  void finish() const;

 private:
  DryRunForm form_;
  Json experiments_ = Json::array();
};
}  // namespace optrush
