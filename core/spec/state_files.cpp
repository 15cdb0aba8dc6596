#include "spec/state_files.h"

#include <cstdio>
#include <string>

#include "base/files.h"

namespace optrush {
namespace fs = std::filesystem;

namespace {
constexpr int kRecordVersion = 1;

std::string numbered(const char* format, int64_t number) {
  char text[64];
  std::snprintf(text, sizeof text, format, static_cast<long long>(number));
  return text;
}

fs::path record_file(const fs::path& folder, int64_t step, int64_t rank) {
  return state_part(folder, step, rank).replace_extension(".json");
}
}  // namespace

fs::path state_head(const fs::path& folder) { return folder / "state.json"; }

fs::path state_of_step(const fs::path& folder, int64_t step) {
  return folder / numbered("step-%08lld", step);
}

fs::path state_part(const fs::path& folder, int64_t step, int64_t rank) {
  return state_of_step(folder, step) / numbered("rank-%05lld.safetensors", rank);
}

void write_record(const fs::path& folder, int64_t step, int64_t rank, const Json& record) {
  // The first line is the hash of the rest, which has no line breaks because it may have many steps.
  const std::string body = record.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
  const std::string head = Json{{"schema_version", kRecordVersion}, {"sha256", sha256(body)}}.dump() + "\n";
  write_file(record_file(folder, step, rank), {head, body});
}

std::optional<Json> saved_record(const fs::path& folder, int64_t rank) try {
  if (!is_there(state_head(folder))) return std::nullopt;
  const fs::path file = record_file(folder, read_json(state_head(folder)).at("step"), rank);
  if (!is_there(file)) return std::nullopt;
  const std::string text = read_file(file), body = text.substr(text.find('\n') + 1);
  const Json head = parse_json(std::string_view(text).substr(0, text.find('\n')), file.string());
  const bool whole = head.at("schema_version") == kRecordVersion && head.at("sha256") == sha256(body);
  return whole ? std::optional(parse_json(body, file.string())) : std::nullopt;
} catch (const std::exception&) {  // the file was damaged or edited
  return std::nullopt;
}

void forget_records(const fs::path& folder) {
  if (!fs::is_directory(folder)) return;
  for (const auto& step : fs::directory_iterator(folder)) {
    if (!step.is_directory() || !step.path().filename().string().starts_with("step-")) continue;
    for (const auto& file : fs::directory_iterator(step))
      if (file.path().extension() == ".json") fs::remove(file);
  }
}
}  // namespace optrush
