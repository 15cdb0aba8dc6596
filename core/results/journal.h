#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "results/status.h"
#include "spec/record.h"

namespace optrush {
/// A line of journal.jsonl, the append-only log of a report.
struct JournalEntry {
  enum class Event : uint8_t {
    started,
    finished,
    restarted,  ///< a fault ended the run, and it starts again
    skipped,    ///< the run is not started, because its plan failed or it failed before
    wrote,      ///< a file of the folder will be written next
    interrupted,
    ended
  };
  Event event = Event::ended;
  std::string run = {};          ///< name of the run's folder
  std::string spec_sha256 = {};  ///< hash of the spec that the run was started with
  std::optional<Status> status = {};
  std::string file = {};    ///< relative to the report's folder
  std::string sha256 = {};  ///< hash of the file of the event: spec.json, result.json or `file`
  std::string inputs = {};  ///< sum_of_inputs() of the spec
  std::string reason = {};
  std::optional<ErrorCode> code = {};
  std::optional<int64_t> rank = {};       ///< of several ranks, the one that failed first
  std::optional<int64_t> made = {};       ///< restarted: number of steps before the fault
  std::optional<int64_t> kept = {};       ///< restarted: number of these steps that the saved state contains
  std::optional<int64_t> from_step = {};  ///< started: first step after the saved state
  std::string time = {};
};
std::string_view to_string(JournalEntry::Event);
std::span<const std::string_view> names_of(JournalEntry::Event);

/// A report's journal and what its lines say: which runs were started, and the hashes of files. Files that
/// the journal does not know, such as those of an external program, are not checked.
class Journal {
 public:
  /// Replays the existing lines. Incomplete lines and lines that are not entries are ignored.
  explicit Journal(std::filesystem::path folder);

  /// Writes an entry with the present time, and replays it.
  void append(JournalEntry);
  /// Writes a file of the folder. The line with its hash is first: after a kill between both, the previous
  /// file is still valid.
  void write(const std::string& file, const Json&);

  struct Run {
    std::string spec;    ///< hash of the spec of its last start; "": never started, or skipped since
    std::string inputs;  ///< hash of its inputs at that start; "": not known
    /// Faults since its first step, including those under earlier controllers.
    std::vector<JournalEntry> restarts;
    bool restarting = false;  ///< its next start follows a fault
  };
  /// The record of a run; empty if the journal has none. Valid until the next entry about that run.
  const Run& of(const std::string& run) const;
  /// Whether nothing was started since the experiment last ended.
  bool came_to_end() const { return came_to_end_; }

  /// Reads a JSON file of the report. Throws an Error if its bytes have changed.
  Json read(const std::filesystem::path& file) const;
  /// The same, as text.
  std::string text(const std::filesystem::path& file) const;
  /// Whether the bytes of a file are unchanged, as far as the journal knows it.
  bool agree(const std::filesystem::path& file) const;

 private:
  void replay(const JournalEntry&);
  bool agree(const std::filesystem::path& file, const std::string& content) const;

  std::filesystem::path folder_, file_;
  std::map<std::string, Run> runs_;
  std::map<std::string, std::set<std::string>> sums_;  ///< all valid hashes, by path in the folder
  bool came_to_end_ = false;
};
}  // namespace optrush
