#include "results/journal.h"

#include <array>

#include "base/files.h"
#include "base/text.h"

namespace optrush {
namespace fs = std::filesystem;

namespace {
constexpr std::array<std::string_view, 7> kEvents = {"started", "finished",    "restarted", "skipped",
                                                     "wrote",   "interrupted", "ended"};

fs::path journal_of(const fs::path& folder) { return folder / "journal.jsonl"; }

const Record<JournalEntry>& entry_record() {
  using E = JournalEntry;
  static const auto record = Record<E>("an entry of the journal")
                                 .open()
                                 .field("event", &E::event, {.required = true})
                                 .field("run", &E::run, {.left_out = true})
                                 .field("spec_sha256", &E::spec_sha256, {.left_out = true})
                                 .field("status", &E::status, {.left_out = true})
                                 .field("file", &E::file, {.left_out = true})
                                 .field("sha256", &E::sha256, {.left_out = true})
                                 .field("inputs", &E::inputs, {.left_out = true})
                                 .field("reason", &E::reason, {.left_out = true})
                                 .field("code", &E::code, {.left_out = true})
                                 .field("rank", &E::rank, {.left_out = true})
                                 .field("made", &E::made, {.left_out = true})
                                 .field("kept", &E::kept, {.left_out = true})
                                 .field("from_step", &E::from_step, {.left_out = true})
                                 .field("time", &E::time, {.left_out = true});
  return record;
}
}  // namespace

std::string_view to_string(JournalEntry::Event event) { return kEvents.at(static_cast<size_t>(event)); }
std::span<const std::string_view> names_of(JournalEntry::Event) { return kEvents; }

std::vector<JournalEntry> read_journal(const fs::path& folder) {
  std::vector<JournalEntry> entries;
  for (const Json& line : read_json_lines(journal_of(folder))) {
    try {
      entries.push_back(entry_record().read(line));
    } catch (const Error&) {  // a user or a later build wrote the line
    }
  }
  return entries;
}

void append_to_journal(const fs::path& folder, JournalEntry entry) {
  entry.time = utc_now();
  append_line(journal_of(folder),
              entry_record().write(entry).dump(-1, ' ', true, Json::error_handler_t::replace));
}

void close_torn_journal(const fs::path& folder) { close_torn_line(journal_of(folder)); }
}  // namespace optrush
