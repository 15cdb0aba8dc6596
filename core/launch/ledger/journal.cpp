#include "launch/ledger/journal.h"

#include "base/files.h"

namespace optrush {
namespace fs = std::filesystem;

using Event = JournalEntry::Event;

Journal::Journal(const fs::path& folder) : Journal(folder, read_journal(folder)) {}

Journal::Journal(const fs::path& folder, const std::vector<JournalEntry>& entries)
    : folder_(folder), sums_(folder, entries) {
  close_torn_journal(folder);
  for (const JournalEntry& entry : entries) replay(entry);
}

void Journal::append(const JournalEntry& entry) {
  append_to_journal(folder_, entry);
  replay(entry);
}

void Journal::replay(const JournalEntry& entry) {
  if (entry.event == Event::started) {
    Run& run = runs_[entry.run];
    // A start with `from_step` continues from a saved state. Any other start begins the run anew, unless it
    // follows a fault.
    if (!run.restarting && !entry.from_step) run.restarts.clear();
    run = {entry.spec_sha256, entry.inputs, {}, std::move(run.restarts)};
    came_to_end_ = false;
  } else if (entry.event == Event::restarted) {
    Run& run = runs_[entry.run];
    run.restarts.push_back({entry.status.value_or(Status::crashed), entry.reason, entry.rank,
                            entry.made.value_or(0), entry.kept.value_or(0)});
    run.restarting = true;
  } else if (entry.event == Event::finished) {
    runs_[entry.run].result = entry.sha256;
  } else if (entry.event == Event::skipped) {
    runs_.erase(entry.run);
  } else if (entry.event == Event::ended) {
    came_to_end_ = true;
  }
}

void Journal::write(const std::string& file, const Json& json) {
  const std::string content = json_text(json);
  append({.event = Event::wrote, .file = file, .sha256 = sha256(content)});
  write_file(folder_ / file, content);
}

const Journal::Run& Journal::of(const std::string& run) const {
  static const Run unknown;
  const auto it = runs_.find(run);
  return it == runs_.end() ? unknown : it->second;
}
}  // namespace optrush
