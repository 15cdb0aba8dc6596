#pragma once
#include <filesystem>
#include <string>

#include "launch/ranks/launcher.h"

namespace optrush {
/// The work of a process of a job that is not rank 0: it joins rank 0 and starts the workers of its rank when
/// it is told to, until rank 0 ends. Returns the exit code of the program, and says on stderr why where that
/// is not 0: rank 0's, so that a launcher on this machine learns how the job ended, or 128 and the signal
/// that ended it. A signal is told to rank 0, which stops the job and says so; a further one, or an answer
/// that does not come, ends this process by itself. An Error where rank 0 is not found, refuses it, or is
/// lost. No worker is left then.
int follow(const Launched&, const std::string& script_sha256, const std::filesystem::path& worker);
}  // namespace optrush
