#include "launch/journal.h"

#include <sstream>

#include "base/files.h"
#include "base/spec_json.h"
#include "launch/text.h"

namespace optrush {
namespace fs = std::filesystem;

namespace {
std::string dumped(const Json& json) { return json.dump(-1, ' ', true, Json::error_handler_t::replace); }
}  // namespace

Journal::Journal(fs::path folder) : file_(std::move(folder) / "journal.jsonl") {
  if (!fs::exists(file_)) return;
  const std::string content = read_file(file_);
  close_torn_line(file_);
  std::istringstream lines(content);
  for (std::string line; std::getline(lines, line);) {
    const Json entry = Json::parse(line, nullptr, false);
    if (!entry.is_object()) continue;
    const auto text = [&](const char* key) {
      const auto it = entry.find(key);
      return it != entry.end() && it->is_string() ? it->get<std::string>() : std::string();
    };
    if (text("event") == "started") started_[text("run")] = text("spec_sha256");
    if (text("event") == "skipped") started_.erase(text("run"));
  }
}

void Journal::started(const std::string& run, const std::string& sha) {
  append({{"event", "started"}, {"run", run}, {"spec_sha256", sha}});
  started_[run] = sha;
}

void Journal::finished(const std::string& run, const std::string& sha, const std::string& status) {
  append({{"event", "finished"}, {"run", run}, {"spec_sha256", sha}, {"status", status}});
}

void Journal::skipped(const std::string& run, const std::string& reason) {
  append({{"event", "skipped"}, {"run", run}, {"reason", reason}});
  started_.erase(run);
}

void Journal::interrupted(const std::string& reason) {
  append({{"event", "interrupted"}, {"reason", reason}});
}

void Journal::ended() { append({{"event", "ended"}}); }

std::string Journal::spec_of(const std::string& run) const {
  const auto it = started_.find(run);
  return it == started_.end() ? std::string() : it->second;
}

void Journal::append(const Json& entry) {
  Json line = entry;
  line["time"] = utc_now();
  append_line(file_, dumped(line));
}

std::string spec_sha256(const RunSpec& spec) { return sha256(dumped(to_json(spec))); }
}  // namespace optrush
