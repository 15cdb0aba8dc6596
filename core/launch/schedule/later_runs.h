#pragma once
#include <map>
#include <string>

#include "launch/schedule/schedule.h"
#include "launch/schedule/time_left.h"

namespace optrush {
/// The runs of an experiment that have not started, for the progress line. A start changes one entry, so its
/// cost does not grow with the number of runs.
class LaterRuns {
 public:
  void add(const Job&);
  void remove(const Job&);
  size_t size() const { return runs_.size(); }
  /// The number of runs of each kind.
  const std::map<Work, int64_t>& counts() const { return counts_; }

 private:
  std::map<std::string, Work> runs_;  ///< kind of work, by id
  std::map<Work, int64_t> counts_;
};
}  // namespace optrush
