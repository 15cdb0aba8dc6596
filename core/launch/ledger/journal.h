#pragma once
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "launch/run/restart.h"
#include "optrush/json.h"
#include "results/sums.h"

namespace optrush {
/// journal.jsonl of a report: one line per start and end of a run, append-only. Incomplete lines are ignored.
class Journal {
 public:
  /// Reads the existing lines. An incomplete last line is closed, so that the next line is separate.
  explicit Journal(const std::filesystem::path& folder);

  /// Writes an entry and replays it.
  void append(const JournalEntry&);
  /// Writes a file of the folder and journals its hash, which reports check.
  void write(const std::string& file, const Json&);
  /// Whether nothing was started since the experiment last ended.
  bool came_to_end() const { return came_to_end_; }

  /// The hashes of files as they were when the journal was read.
  const Sums& sums() const { return sums_; }

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
  Journal(const std::filesystem::path& folder, const std::vector<JournalEntry>&);
  /// Updates the records by an entry.
  void replay(const JournalEntry&);

  std::filesystem::path folder_;
  Sums sums_;
  std::map<std::string, Run> runs_;
  bool came_to_end_ = false;
};
}  // namespace optrush
