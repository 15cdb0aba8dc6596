#pragma once
#include <filesystem>
#include <string>

#include "launch/ranks/launcher.h"
#include "launch/run/channel.h"

namespace optrush {
/// The agent of a rank other than 0: joins rank 0, and starts workers of its rank on request until rank 0
/// ends. Returns the exit code and, if it is not 0, prints the reason to stderr. It is rank 0's code, so that
/// a launcher on this machine sees the end of the job, or 128 and the signal. A signal is reported to rank 0,
/// which stops the job; a second signal or a missing answer ends this process. Throws an Error if rank 0 is
/// not found, refuses this process, or is lost. No worker is left behind.
int run_rank_agent(const Launched&, const std::string& script_sha256, const std::filesystem::path& worker,
                   const JobSecret&);
}  // namespace optrush
