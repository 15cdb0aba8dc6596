#include "results/sums.h"

#include "base/files.h"
#include "optrush/error.h"

namespace optrush {
namespace fs = std::filesystem;

using Event = JournalEntry::Event;

Sums::Sums(const fs::path& folder) : Sums(folder, read_journal(folder)) {}

Sums::Sums(const fs::path& folder, const std::vector<JournalEntry>& entries) : folder_(folder) {
  for (const JournalEntry& entry : entries) take(entry);
}

void Sums::take(const JournalEntry& entry) {
  const std::string run = "runs/" + entry.run;
  const auto only = [&](const std::string& file) {
    known_.erase(file);
    if (!entry.sha256.empty()) known_[file].insert(entry.sha256);
  };
  // The process may be killed between this line and the file that it announces. Then the previous hash is
  // valid.
  if (entry.event == Event::wrote && !entry.sha256.empty()) known_[entry.file].insert(entry.sha256);
  if (entry.event == Event::finished) only(run + "/result.json");
  if (entry.event != Event::started && entry.event != Event::skipped) return;
  known_.erase(run + "/result.json");
  if (entry.event == Event::started)
    only(run + "/spec.json");
  else
    known_.erase(run + "/spec.json");
}

bool Sums::agree(const fs::path& file) const { return agree(file, read_file(file)); }

bool Sums::agree(const fs::path& file, const std::string& content) const {
  const auto sums = known_.find(file.lexically_relative(folder_).generic_string());
  return sums == known_.end() || sums->second.contains(sha256(content));
}

Json Sums::read(const fs::path& file) const { return parse_stored(text(file), file.string()); }

std::string Sums::text(const fs::path& file) const {
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
