#pragma once
#include <sys/types.h>

#include <string>
#include <vector>

namespace optrush {
/// From now on processes that outlive the one that started them become children of this process, wherever
/// they have gone: other process groups, other sessions. So nothing that a run started can hide.
void adopt_orphans();

/// The same, while the object lives.
class AdoptsOrphans {
 public:
  AdoptsOrphans();
  ~AdoptsOrphans();
  AdoptsOrphans(const AdoptsOrphans&) = delete;
  AdoptsOrphans& operator=(const AdoptsOrphans&) = delete;

 private:
  bool before_;
};

/// Once no run is alive: ends what was adopted, all children but `others`. Tells which were in another group
/// than the run's, where its end had not reached them: "sleep (4711)". Without adopt_orphans() nothing is
/// done.
std::vector<std::string> end_orphans(pid_t group, const std::vector<pid_t>& others);
}  // namespace optrush
