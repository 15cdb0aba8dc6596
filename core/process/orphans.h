#pragma once
#include <sys/types.h>

#include <string>
#include <vector>

namespace optrush {
/// After this call, processes whose parent ends become children of this process, even if they are in another
/// process group or session. So this process finds everything that a run has started.
void adopt_orphans();

/// The same while the object lives.
class AdoptsOrphans {
 public:
  AdoptsOrphans();
  ~AdoptsOrphans();
  AdoptsOrphans(const AdoptsOrphans&) = delete;
  AdoptsOrphans& operator=(const AdoptsOrphans&) = delete;

 private:
  bool before_;
};

/// Seconds to wait for the end of a process after SIGKILL: OPTRUSH_KILL_TIMEOUT, or 30.
double kill_timeout_s();
/// Waits so long for a child that was killed. Returns whether it has ended; otherwise it is named and left.
bool reap(pid_t child);
/// Names on the terminal a child that SIGKILL does not end, because the kernel waits for a device or a file
/// system.
void report_unkilled(pid_t child);

/// To be called when no run is alive: ends the adopted processes, which are all children except `others`.
/// Returns those that were in another group than the run's `group`, and so did not end with it: "sleep
/// (4711)". Adds those that SIGKILL does not end to `others`. Does nothing without adopt_orphans().
std::vector<std::string> end_orphans(pid_t group, std::vector<pid_t>& others);
}  // namespace optrush
