#pragma once
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "launch/progress.h"
#include "optrush/json.h"
#include "results/case_end.h"

namespace optrush {
struct CheckSettings {
  std::filesystem::path worker;
  std::vector<std::string> selection;  ///< options of the worker's check-list: --device, --plugin, ...
  std::filesystem::path journal;       ///< results so far, for a check that resumes
  bool resume = false;
  double for_s = std::numeric_limits<double>::infinity();  ///< of the whole check
  double limit_s = 0;                                      ///< of one case; 0: by its kind
};

/// One line of the result.
struct CheckedCase {
  std::string id, kind;
  std::vector<std::string> subjects;
  CaseEnd end = {};

  CaseStatus status() const { return end.status; }
};

struct CheckOutcome {
  std::string device, machine;  ///< "cuda", "NVIDIA H200"
  std::vector<CheckedCase> cases;
  Json unusable;       ///< files that are no usable plugins: [{"file", "reason"}]
  size_t resumed = 0;  ///< cases whose result was there already
  int signal = 0;      ///< that ended the check early
  double seconds = 0;
};

/// Lists the cases of this machine and runs them in worker processes, many in each. A case that crashes,
/// hangs or fails ends its process; the rest goes on in a new one. Returns what is known when the cases, the
/// time or the patience of the user run out; an Error where there is nothing to run.
CheckOutcome run_checks(const CheckSettings&, Progress&);
}  // namespace optrush
