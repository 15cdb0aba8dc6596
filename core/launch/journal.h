#pragma once
#include <filesystem>
#include <map>
#include <optional>
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

  struct Run {
    std::string spec;    ///< hash of the spec of its last start; "": never started, or skipped since
    std::string inputs;  ///< hash of its inputs at that start; "": not known
    std::string result;  ///< hash of its result; "": not known
    /// Faults since its first step, including those under earlier controllers.
    std::vector<Restart> restarts;
    bool restarting = false;  ///< its next start follows a fault
  };
  /// The record of a run; empty if the journal has none. Valid until the next entry about that run.
  const Run& of(const std::string& run) const;

 private:
  /// Updates the records by an entry.
  void take(const JournalEntry&);
  /// Writes an entry to the file and takes it.
  void append(const JournalEntry&);

  std::filesystem::path folder_;
  std::map<std::string, Run> runs_;
  bool came_to_end_ = false;
};
}  // namespace optrush
