#pragma once
#include "experiment/experiment.h"

namespace optrush {
/// The settings of a spec in the form of a rung's settings: {"model": ..., "train": ..., "device": ...}.
Json settings_of(const RunSpec&);
/// The fields of `now` that differ from `before`, recursively.
Json difference(const Json& before, const Json& now);
/// Whether the list has this plugin with equal options.
bool has(const std::vector<PluginUse>&, const PluginUse& wanted);

/// A rung that turns the stack of `from` into the stack of `to`, for any stacks.
Rung rung_between(const Variant& from, const Variant& to, std::string name);
}  // namespace optrush
