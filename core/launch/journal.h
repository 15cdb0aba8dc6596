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
/// journal.jsonl of a report: one line per start and end of a run, append-only. Incomplete lines are ignored.
class Journal {
 public:
  /// Reads the existing lines. An incomplete last line is closed, so that the next line is separate.
  explicit Journal(const std::filesystem::path& folder);

  /// `sha256`: hash of spec.json, which reports check. `inputs`: sum_of_inputs() of the spec. `from_step`:
  /// first step after a saved state.
  void started(const std::string& run, const std::string& spec_sha256, const std::string& sha256,
               const std::string& inputs, std::optional<int64_t> from_step = {});
  /// `sha256`: hash of result.json.
  void finished(const std::string& run, const std::string& spec_sha256, const RunResult&,
                const std::string& sha256);
  /// A fault ended the run, and it will start again.
  void restarted(const std::string& run, const Restart&);
  /// Writes a file of the folder and journals its hash, which reports check.
  void write(const std::string& file, const Json&);
  /// The run is not started: its plan failed, or it failed before.
  void skipped(const std::string& run, const std::string& reason);
  void interrupted(const std::string& reason);
  void ended();
  /// Whether nothing was started since the experiment last ended.
  bool came_to_end() const { return came_to_end_; }

  /// Hash of the spec with which the run was last started; "": never, or skipped since.
  std::string spec_of(const std::string& run) const;
  /// Hash of the run's inputs at its start; "": not known.
  std::string inputs_of(const std::string& run) const;
  /// The faults since the run began with its first step, including those under earlier controllers.
  std::vector<Restart> restarts_of(const std::string& run) const;
  /// Hash of the run's result; "": not known.
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
  std::map<std::string, std::string> finished_;  ///< hash of the result, by run
  std::map<std::string, std::vector<Restart>> restarts_;
  std::set<std::string> restarting_;  ///< runs whose next start follows a fault
  bool came_to_end_ = false;
};
}  // namespace optrush
