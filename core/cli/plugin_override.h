#pragma once
#include <string>
#include <vector>

#include "experiment/experiment.h"

namespace optrush {
/// Names of the plugins that an experiment stacks anywhere, each once.
std::vector<std::string> stacked_plugins(const Experiment&);

/// Gives an option of a plugin this value wherever the experiment stacks the plugin, checked against its
/// description. `keys`: {"adapter", "rank"}. An Error names the nearest option; so does one where rungs
/// differ in this option, for they would become alike.
void set_plugin_option(Experiment&, const std::vector<std::string>& keys, const std::string& text,
                       const std::string& where);
}  // namespace optrush
