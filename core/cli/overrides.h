#pragma once
#include <optional>
#include <string>
#include <vector>

#include "experiment/experiment.h"

namespace optrush {
/// Changes that the command line makes to every experiment of a script.
struct Overrides {
  std::vector<std::string> set;  ///< "train.steps=4", "rounds=3", "PLUGIN.option=16"
  std::optional<int64_t> rounds;
  std::optional<double> within;
  std::optional<std::string> at_most;
  std::optional<std::string> label;
  std::optional<std::string> device;
  std::optional<int64_t> threads;
  std::optional<std::string> interleave;
  bool trace = false;
  std::optional<int64_t> max_restarts;
};

/// Settings change the base, and with it every rung that does not set them. Plugin options change every rung
/// that stacks the plugin. A UsageError names the nearest key.
void apply(const Overrides&, Experiment&);
}  // namespace optrush
