#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "results/status.h"
#include "spec/record.h"

namespace optrush {
/// A line of journal.jsonl: what was done for a report, only ever appended to.
struct JournalEntry {
  enum class Event : uint8_t {
    started,
    finished,
    restarted,  ///< a fault has ended it, and it starts again
    skipped,    ///< will not be started: its plan failed, or it failed before
    wrote,      ///< a file of the folder is about to be written
    interrupted,
    ended
  };
  Event event = Event::ended;
  std::string run = {};          ///< name of its folder
  std::string spec_sha256 = {};  ///< of the spec that it was started with
  std::optional<Status> status = {};
  std::string file = {};    ///< path in the report's folder
  std::string sha256 = {};  ///< of the file that the event is about: spec.json, result.json or `file`
  std::string inputs = {};  ///< sum_of_inputs() of the spec
  std::string reason = {};
  std::optional<ErrorCode> code = {};
  std::optional<int64_t> rank = {};       ///< of several, the one that failed first
  std::optional<int64_t> made = {};       ///< restarted: steps before the fault
  std::optional<int64_t> kept = {};       ///< restarted: of them, those that the saved state has
  std::optional<int64_t> from_step = {};  ///< started: from a saved state, with this step
  std::string time = {};
};
std::string_view to_string(JournalEntry::Event);
std::span<const std::string_view> names_of(JournalEntry::Event);

/// All entries of a report's folder. A line that a kill cut off is passed over, as is one that says something
/// else.
std::vector<JournalEntry> read_journal(const std::filesystem::path& folder);
/// With the present time.
void append_to_journal(const std::filesystem::path& folder, JournalEntry);
/// So that the next line stands alone, wherever a kill cut the last one off.
void close_torn_journal(const std::filesystem::path& folder);
}  // namespace optrush
