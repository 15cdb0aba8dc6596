#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
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

/// All entries of a report's journal. Ignores incomplete lines and lines that are not entries.
std::vector<JournalEntry> read_journal(const std::filesystem::path& folder);
/// Sets the time of the entry and appends it.
void append_to_journal(const std::filesystem::path& folder, JournalEntry);
/// Completes a last line that a killed process left without an end.
void close_torn_journal(const std::filesystem::path& folder);
}  // namespace optrush
