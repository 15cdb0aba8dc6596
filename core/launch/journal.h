#pragma once
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "launch/run/restart.h"
#include "optrush/json.h"
#include "results/journal.h"

namespace optrush {
/// journal.jsonl of a report: one line for each start and each end of a run, append-only. A line that was cut
/// off by a kill is ignored.
class Journal {
 public:
  /// Reads the existing lines. A torn last line is closed, so that the next line is separate.
  explicit Journal(const std::filesystem::path& folder);

  /// `sha256`: of spec.json as it lies there, which reports check. `inputs`: sum_of_inputs() of the spec.
  /// `from_step`: that it goes on with, from its saved state.
  void started(const std::string& run, const std::string& spec_sha256, const std::string& sha256,
               const std::string& inputs, std::optional<int64_t> from_step = {});
  /// `sha256`: of result.json.
  void finished(const std::string& run, const std::string& spec_sha256, const RunResult&,
                const std::string& sha256);
  /// A fault has ended it, and it is about to start again.
  void restarted(const std::string& run, const Restart&);
  /// Writes a file of the folder whose sum reports check.
  void write(const std::string& file, const Json&);
  /// Will not be started: its plan failed, or it failed before.
  void skipped(const std::string& run, const std::string& reason);
  void interrupted(const std::string& reason);
  void ended();
  /// Nothing was started since the experiment last came to its end.
  bool came_to_end() const { return came_to_end_; }

  /// Of the spec that the run was last started with; "": never, or skipped since.
  std::string spec_of(const std::string& run) const;
  /// Of the files that the run reads, when it was started; "": none is known.
  std::string inputs_of(const std::string& run) const;
  /// The faults since the run began with its first step, also those of earlier controllers.
  std::vector<Restart> restarts_of(const std::string& run) const;
  /// Sum of the result that it finished with; "": none is known.
  std::string result_of(const std::string& run) const;

 private:
  struct Start {
    std::string spec, inputs;
  };
  void begins(const std::string& run, Start, bool goes_on);
  void forget(const std::string& run);
  void note_restart(const JournalEntry&);

  std::filesystem::path folder_;
  std::map<std::string, Start> started_;
  std::map<std::string, std::string> finished_;  ///< by run: sum of its result
  std::map<std::string, std::vector<Restart>> restarts_;
  std::set<std::string> restarting_;  ///< runs whose next start is one after a fault
  bool came_to_end_ = false;
};
}  // namespace optrush
