#include "launch/journal.h"

#include "base/files.h"

namespace optrush {
namespace fs = std::filesystem;

using Event = JournalEntry::Event;

Journal::Journal(const fs::path& folder) : folder_(folder) {
  const auto entries = read_journal(folder);
  close_torn_journal(folder);
  for (const JournalEntry& entry : entries) {
    if (entry.event == Event::started)
      begins(entry.run, {entry.spec_sha256, entry.inputs}, entry.from_step.has_value());
    if (entry.event == Event::restarted) note_restart(entry);
    if (entry.event == Event::finished) finished_[entry.run] = entry.sha256;
    if (entry.event == Event::skipped) forget(entry.run);
    if (entry.event == Event::ended) came_to_end_ = true;
  }
}

void Journal::started(const std::string& run, const std::string& spec, const std::string& sha256,
                      const std::string& inputs, std::optional<int64_t> from_step) {
  append_to_journal(folder_, {.event = Event::started,
                              .run = run,
                              .spec_sha256 = spec,
                              .sha256 = sha256,
                              .inputs = inputs,
                              .from_step = from_step});
  begins(run, {spec, inputs}, from_step.has_value());
}

void Journal::finished(const std::string& run, const std::string& spec, const RunResult& result,
                       const std::string& sha256) {
  append_to_journal(folder_, {.event = Event::finished,
                              .run = run,
                              .spec_sha256 = spec,
                              .status = result.status,
                              .sha256 = sha256,
                              .reason = result.reason,
                              .code = result.code,
                              .rank = result.rank});
  finished_[run] = sha256;
}

void Journal::restarted(const std::string& run, const Restart& restart) {
  const JournalEntry entry{.event = Event::restarted,
                           .run = run,
                           .status = restart.status,
                           .reason = restart.reason,
                           .rank = restart.rank,
                           .made = restart.made,
                           .kept = restart.kept};
  append_to_journal(folder_, entry);
  note_restart(entry);
}

void Journal::note_restart(const JournalEntry& entry) {
  restarts_[entry.run].push_back({entry.status.value_or(Status::crashed), entry.reason, entry.rank,
                                  entry.made.value_or(0), entry.kept.value_or(0)});
  restarting_.insert(entry.run);
}

void Journal::write(const std::string& file, const Json& json) {
  const std::string content = json_text(json);
  append_to_journal(folder_, {.event = Event::wrote, .file = file, .sha256 = sha256(content)});
  write_file(folder_ / file, content);
}

/// `goes_on`: continues from a saved state. Otherwise the run begins, unless it restarts after a fault.
void Journal::begins(const std::string& run, Start start, bool goes_on) {
  if (restarting_.erase(run) == 0 && !goes_on) restarts_.erase(run);
  started_[run] = std::move(start);
  finished_.erase(run);
  came_to_end_ = false;
}

void Journal::forget(const std::string& run) {
  started_.erase(run);
  finished_.erase(run);
  restarts_.erase(run);
  restarting_.erase(run);
}

void Journal::skipped(const std::string& run, const std::string& reason) {
  append_to_journal(folder_, {.event = Event::skipped, .run = run, .reason = reason});
  forget(run);
}

void Journal::interrupted(const std::string& reason) {
  append_to_journal(folder_, {.event = Event::interrupted, .reason = reason});
}

void Journal::ended() {
  append_to_journal(folder_, {.event = Event::ended});
  came_to_end_ = true;
}

std::string Journal::spec_of(const std::string& run) const {
  const auto it = started_.find(run);
  return it == started_.end() ? std::string() : it->second.spec;
}

std::string Journal::inputs_of(const std::string& run) const {
  const auto it = started_.find(run);
  return it == started_.end() ? std::string() : it->second.inputs;
}

std::vector<Restart> Journal::restarts_of(const std::string& run) const {
  const auto it = restarts_.find(run);
  return it == restarts_.end() ? std::vector<Restart>() : it->second;
}

std::string Journal::result_of(const std::string& run) const {
  const auto it = finished_.find(run);
  return it == finished_.end() ? std::string() : it->second;
}
}  // namespace optrush
