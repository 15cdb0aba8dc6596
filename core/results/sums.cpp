#include "results/sums.h"

#include "base/files.h"
#include "optrush/error.h"

namespace optrush {
namespace fs = std::filesystem;

Sums::Sums(const fs::path& folder) : folder_(folder) {
  for (const Json& entry : read_json_lines(folder / "journal.jsonl")) take(entry);
}

void Sums::take(const Json& entry) {
  const auto text = [&](const char* key) {
    const auto it = entry.find(key);
    return it != entry.end() && it->is_string() ? it->get<std::string>() : std::string();
  };
  const std::string event = text("event"), sum = text("sha256"), run = "runs/" + text("run");
  const auto only = [&](const std::string& file) {
    known_.erase(file);
    if (!sum.empty()) known_[file].insert(sum);
  };
  // A kill may come between this line and the file that it announces: the one before is right then.
  if (event == "wrote" && !sum.empty()) known_[text("file")].insert(sum);
  if (event == "finished") only(run + "/result.json");
  if (event != "started" && event != "skipped") return;
  known_.erase(run + "/result.json");
  if (event == "started")
    only(run + "/spec.json");
  else
    known_.erase(run + "/spec.json");
}

bool Sums::agree(const fs::path& file) const { return agree(file, read_file(file)); }

bool Sums::agree(const fs::path& file, const std::string& content) const {
  const auto sums = known_.find(file.lexically_relative(folder_).generic_string());
  return sums == known_.end() || sums->second.contains(sha256(content));
}

Json Sums::read(const fs::path& file) const {
  const std::string content = read_file(file);
  if (agree(file, content)) return parse_stored(content, file.string());
  const bool of_run = file.lexically_relative(folder_).generic_string().starts_with("runs/");
  throw Error("was changed after it was written: its sha256 is not in journal.jsonl",
              "restore it, or remove " +
                  (of_run ? "the folder '" + file.parent_path().string() + "'" : "it") +
                  ": --resume makes it again",
              file.string());
}
}  // namespace optrush
