#include "launch/schedule/later_runs.h"

namespace optrush {
void LaterRuns::add(const Job& job) {
  const Work work = work_of(job.spec);
  if (runs_.emplace(job.id, work).second) ++counts_[work];
}

void LaterRuns::remove(const Job& job) {
  const auto run = runs_.find(job.id);
  if (run == runs_.end()) return;
  const auto count = counts_.find(run->second);
  if (--count->second == 0) counts_.erase(count);
  runs_.erase(run);
}
}  // namespace optrush
