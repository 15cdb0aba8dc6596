#pragma once
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "launch/progress.h"
#include "optrush/json.h"
#include "plugin_check/case_end.h"

namespace optrush {
struct CheckSettings {
  std::filesystem::path worker;
  std::vector<std::string> selection;  ///< options of the worker's check-list: --device, --plugin, ...
  std::filesystem::path journal;       ///< results so far, to resume from
  bool resume = false;
  double for_s = std::numeric_limits<double>::infinity();  ///< time limit for the whole check
  double limit_s = 0;                                      ///< time limit for a case; 0: by its kind
};

/// A case with its result.
struct CheckedCase {
  std::string id, kind;
  std::vector<std::string> subjects;
  CaseEnd end = {};

  CaseStatus status() const { return end.status; }
};

struct CheckOutcome {
  std::string device, machine;  ///< "cuda", "NVIDIA H200"
  std::vector<CheckedCase> cases;
  Json unusable;       ///< files that are not usable plugins: [{"file", "reason"}]
  size_t resumed = 0;  ///< number of cases whose result was stored
  int signal = 0;      ///< signal that ended the check early; 0: none
  double seconds = 0;
};

/// Lists the cases of this machine and runs them in worker processes, many in each. A case that crashes,
/// hangs or fails ends its process; the others continue in a new one. Returns the results so far when all
/// cases are done, the time is over, or the user interrupts. Throws an Error if there are no cases.
CheckOutcome run_checks(const CheckSettings&, Progress&);
}  // namespace optrush
