#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "machine/installation.h"

namespace optrush {
/// The experiments that ship, by name: NAME.lua in Installation::experiments, run as `optrush run @NAME`.
std::vector<std::string> shipped_experiments(const Installation&);
/// The script that an argument of `run` means: "@quickstart" or a path. A UsageError has the nearest name
/// where there is no such experiment.
std::filesystem::path script_named(const std::string& argument, const Installation&);
}  // namespace optrush
