#pragma once
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "experiment/experiment.h"
#include "experiment/plan.h"
#include "launch/schedule/schedule.h"
#include "optrush/spec.h"
#include "results/journal.h"

namespace optrush {
// What a start may keep of an earlier one (docs/internals/resume.md).

/// Hashes of the files that runs read. Many runs name the same few plugins and data: a plugin is read again
/// only if it has changed, and data are inspected once.
class InputFiles {
 public:
  /// Whether the plugin files in a result's or a saved record's "plugins" are unchanged.
  bool same(const std::vector<UsedPlugin>&);
  const std::string& sum_of(const RunSpec&);

 private:
  struct Sum {
    std::optional<std::filesystem::file_time_type> written;  ///< none: there is no file
    std::string sha256;                                      ///< "" if there is no file
  };
  std::map<std::filesystem::path, Sum> plugins_;
  std::map<std::vector<std::string>, std::string> inputs_;  ///< by their paths
};

/// Whether the first run of a variant continues from its saved state although its spec has changed.
using Continues = std::function<bool(const Variant&)>;
/// The reason why a run with a result does not belong to the experiment: another spec ("train.lr from 0.001
/// to 0.01"); "" if it does.
std::string why_unrelated(const std::filesystem::path& run, const std::vector<Variant>&, const Experiment&,
                          const Continues&);
/// The reason why a run can't continue from a state of another spec; "" if the spec only distributes the same
/// training over another number of ranks, and steps are left. `record`: stored with the state; `run_folder`:
/// has the earlier spec.
std::string change_of_spec(const Json& record, const Job&, const std::optional<Plan>&,
                           const std::filesystem::path& run_folder);

// Restarts after faults.

/// A note for the report: the number of restarts, the repeated steps, and the reasons.
std::string note_of(const std::vector<JournalEntry>& restarts);
/// Throws a UsageError if an experiment requests restarts and no run of it can continue from a state.
void check_restarts(const Expanded&);
}  // namespace optrush
