#pragma once
#include <filesystem>
#include <string>

#include "launch/launcher.h"

namespace optrush {
/// What a process of a job does that is not rank 0: it joins rank 0 and starts the workers of its rank when
/// it is told to, until there is nothing more to start. Returns the exit code of the program: 0, or 128 and
/// the signal that ended it. An Error where rank 0 is not found, refuses it, or is lost; no worker is left
/// then.
int follow(const Launched&, const std::string& script_sha256, const std::filesystem::path& worker);
}  // namespace optrush
