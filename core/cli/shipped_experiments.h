#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "machine/installation.h"

namespace optrush {
/// The names of the shipped experiments: NAME.lua in Installation::experiments, run as `optrush run @NAME`.
std::vector<std::string> shipped_experiments(const Installation&);
/// The script for an argument of `run`: "@quickstart" or a path. A UsageError names the nearest experiment.
std::filesystem::path script_named(const std::string& argument, const Installation&);
}  // namespace optrush
