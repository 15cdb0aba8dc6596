#include "launch/journal.h"

#include "base/files.h"
#include "base/text.h"

namespace optrush {
namespace fs = std::filesystem;

namespace {
std::string dumped(const Json& json) { return json.dump(-1, ' ', true, Json::error_handler_t::replace); }
}  // namespace

Journal::Journal(const fs::path& folder) : file_(folder / "journal.jsonl") {
  const auto entries = read_json_lines(file_);
  close_torn_line(file_);
  for (const Json& entry : entries) {
    const auto text = [&](const char* key) {
      const auto it = entry.find(key);
      return it != entry.end() && it->is_string() ? it->get<std::string>() : std::string();
    };
    if (text("event") == "started") begins(text("run"), {text("spec_sha256"), text("inputs")});
    if (text("event") == "finished") finished_[text("run")] = text("sha256");
    if (text("event") == "skipped") forget(text("run"));
    if (text("event") == "ended") came_to_end_ = true;
  }
}

void Journal::started(const std::string& run, const std::string& spec, const std::string& sha256,
                      const std::string& inputs) {
  append({{"event", "started"}, {"run", run}, {"spec_sha256", spec}, {"sha256", sha256}, {"inputs", inputs}});
  begins(run, {spec, inputs});
}

void Journal::finished(const std::string& run, const std::string& spec, const std::string& status,
                       const std::string& sha256) {
  append(
      {{"event", "finished"}, {"run", run}, {"spec_sha256", spec}, {"status", status}, {"sha256", sha256}});
  finished_[run] = sha256;
}

void Journal::write(const std::string& file, const Json& json) {
  const std::string content = json_text(json);
  append({{"event", "wrote"}, {"file", file}, {"sha256", sha256(content)}});
  write_file(file_.parent_path() / file, content);
}

void Journal::begins(const std::string& run, Start start) {
  started_[run] = std::move(start);
  finished_.erase(run);
  came_to_end_ = false;
}

void Journal::forget(const std::string& run) {
  started_.erase(run);
  finished_.erase(run);
}

void Journal::skipped(const std::string& run, const std::string& reason) {
  append({{"event", "skipped"}, {"run", run}, {"reason", reason}});
  forget(run);
}

void Journal::interrupted(const std::string& reason) {
  append({{"event", "interrupted"}, {"reason", reason}});
}

void Journal::ended() {
  append({{"event", "ended"}});
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

std::string Journal::result_of(const std::string& run) const {
  const auto it = finished_.find(run);
  return it == finished_.end() ? std::string() : it->second;
}

void Journal::append(const Json& entry) {
  Json line = entry;
  line["time"] = utc_now();
  append_line(file_, dumped(line));
}
}  // namespace optrush
