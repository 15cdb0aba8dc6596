#include "results/journal.h"

#include <array>

#include "base/files.h"
#include "base/text.h"
#include "optrush/error.h"

namespace optrush {
namespace fs = std::filesystem;

using Event = JournalEntry::Event;

namespace {
constexpr std::array<std::string_view, 7> kEvents = {"started", "finished",    "restarted", "skipped",
                                                     "wrote",   "interrupted", "ended"};
}  // namespace

static Record<JournalEntry> record_of(const JournalEntry*) {
  using E = JournalEntry;
  return Record<E>("an entry of the journal")
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
}

std::string_view to_string(JournalEntry::Event event) { return kEvents.at(static_cast<size_t>(event)); }
std::span<const std::string_view> names_of(JournalEntry::Event) { return kEvents; }

Journal::Journal(fs::path folder) : folder_(std::move(folder)), file_(folder_ / "journal.jsonl") {
  for (const Json& line : read_json_lines(file_)) {
    JournalEntry entry;
    try {
      entry = fields_of<JournalEntry>().read(line);
    } catch (const Error&) {  // a user or a later build wrote the line
      continue;
    }
    replay(entry);
  }
}

void Journal::append(JournalEntry entry) {
  entry.time = utc_now();
  close_torn_line(file_);
  append_line(file_,
              fields_of<JournalEntry>().write(entry).dump(-1, ' ', true, Json::error_handler_t::replace));
  replay(entry);
}

void Journal::write(const std::string& file, const Json& json) {
  const std::string content = json_text(json);
  append({.event = Event::wrote, .file = file, .sha256 = sha256(content)});
  write_file(folder_ / file, content);
}

void Journal::replay(const JournalEntry& entry) {
  const std::string spec_file = "runs/" + entry.run + "/spec.json",
                    result_file = "runs/" + entry.run + "/result.json";
  const auto only_now = [&](const std::string& file) {
    sums_.erase(file);
    if (!entry.sha256.empty()) sums_[file].insert(entry.sha256);
  };
  switch (entry.event) {
    case Event::started: {
      Run& run = runs_[entry.run];
      // A start with `from_step` continues from a saved state. Any other start begins the run anew, unless
      // it follows a fault.
      if (!run.restarting && !entry.from_step) run.restarts.clear();
      run = {entry.spec_sha256, entry.inputs, std::move(run.restarts)};
      sums_.erase(result_file);
      came_to_end_ = false;
      return only_now(spec_file);
    }
    case Event::restarted:
      runs_[entry.run].restarts.push_back(entry);
      runs_[entry.run].restarting = true;
      return;
    case Event::finished:
      return only_now(result_file);
    case Event::skipped:
      runs_.erase(entry.run);
      sums_.erase(spec_file);
      sums_.erase(result_file);
      return;
    case Event::wrote:
      if (!entry.sha256.empty()) sums_[entry.file].insert(entry.sha256);
      return;
    case Event::interrupted:
      return;
    case Event::ended:
      came_to_end_ = true;
  }
}

const Journal::Run& Journal::of(const std::string& run) const {
  static const Run unknown;
  const auto it = runs_.find(run);
  return it == runs_.end() ? unknown : it->second;
}

bool Journal::agree(const fs::path& file) const { return agree(file, read_file(file)); }

bool Journal::agree(const fs::path& file, const std::string& content) const {
  const auto sums = sums_.find(file.lexically_relative(folder_).generic_string());
  return sums == sums_.end() || sums->second.contains(sha256(content));
}

Json Journal::read(const fs::path& file) const { return parse_stored(text(file), file.string()); }

std::string Journal::text(const fs::path& file) const {
  std::string content = read_file(file);
  if (agree(file, content)) return content;
  const bool of_run = file.lexically_relative(folder_).generic_string().starts_with("runs/");
  throw Error(
      ErrorCode::invalid_file, "was changed after it was written: its SHA-256 is not in journal.jsonl",
      "restore it, or remove " + (of_run ? "the folder '" + file.parent_path().string() + "'" : "it") +
          " and recreate it with --resume",
      file.string());
}
}  // namespace optrush
