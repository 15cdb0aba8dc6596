#pragma once
#include "experiment/experiment.h"

namespace optrush {
/// The settings of a spec in the form of a rung's: {"model": ..., "train": ..., "device": ...}.
Json settings_of(const RunSpec&);
/// Fields of `now` that differ from `before`, object by object.
Json difference(const Json& before, const Json& now);
/// Whether a use with these very options is among them.
bool has(const std::vector<PluginUse>&, const PluginUse& wanted);

/// A rung that makes `to` out of `from`, whatever they stack.
Rung rung_between(const RunSpec& from, const RunSpec& to, std::string name);
}  // namespace optrush
