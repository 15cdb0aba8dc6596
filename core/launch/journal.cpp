#include "launch/journal.h"

#include "base/files.h"

namespace optrush {
namespace fs = std::filesystem;

using Event = JournalEntry::Event;

Journal::Journal(const fs::path& folder) : folder_(folder) {
  const auto entries = read_journal(folder);
  close_torn_journal(folder);
  for (const JournalEntry& entry : entries) take(entry);
}

void Journal::append(const JournalEntry& entry) {
  append_to_journal(folder_, entry);
  take(entry);
}

void Journal::take(const JournalEntry& entry) {
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

void Journal::started(const std::string& run, const std::string& spec, const std::string& sha256,
                      const std::string& inputs, std::optional<int64_t> from_step) {
  append({.event = Event::started,
          .run = run,
          .spec_sha256 = spec,
          .sha256 = sha256,
          .inputs = inputs,
          .from_step = from_step});
}

void Journal::finished(const std::string& run, const std::string& spec, const RunResult& result,
                       const std::string& sha256) {
  append({.event = Event::finished,
          .run = run,
          .spec_sha256 = spec,
          .status = result.status,
          .sha256 = sha256,
          .reason = result.reason,
          .code = result.code,
          .rank = result.rank});
}

void Journal::restarted(const std::string& run, const Restart& restart) {
  append({.event = Event::restarted,
          .run = run,
          .status = restart.status,
          .reason = restart.reason,
          .rank = restart.rank,
          .made = restart.made,
          .kept = restart.kept});
}

void Journal::write(const std::string& file, const Json& json) {
  const std::string content = json_text(json);
  append({.event = Event::wrote, .file = file, .sha256 = sha256(content)});
  write_file(folder_ / file, content);
}

void Journal::skipped(const std::string& run, const std::string& reason) {
  append({.event = Event::skipped, .run = run, .reason = reason});
}

void Journal::interrupted(const std::string& reason) {
  append({.event = Event::interrupted, .reason = reason});
}

void Journal::ended() { append({.event = Event::ended}); }

const Journal::Run& Journal::of(const std::string& run) const {
  static const Run unknown;
  const auto it = runs_.find(run);
  return it == runs_.end() ? unknown : it->second;
}
}  // namespace optrush
