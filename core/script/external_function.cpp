#include "base/files.h"
#include "base/suggest.h"
#include "script/functions.h"
#include "script/settings.h"

namespace optrush {
namespace fs = std::filesystem;
namespace {
std::vector<std::string> external_words(const LuaTable& table, const std::string& field) {
  const auto* value = table.find(field);
  return value == nullptr ? std::vector<std::string>() : value->json().get<std::vector<std::string>>();
}

/// Refuses unknown placeholders, which would reach the program unchanged.
void check_placeholders(const std::vector<std::string>& command) {
  for (const auto& word : command)
    if (const auto unknown = unknown_placeholder(word); !unknown.empty())
      throw Error(ErrorCode::unknown_name,
                  "rush.external: unknown placeholder '" + unknown + "'" +
                      (unknown == word ? "" : " in '" + word + "'"),
                  did_you_mean(unknown, placeholders()));
}

/// A file in the command, with a path that the program can find from the script's folder, where it runs.
std::string placed(const std::string& word, const ScriptContext& context) {
  const fs::path file = context.resolve(word);
  return context.is_given(word) && fs::exists(file) ? file.string() : word;
}

/// A file named by the script, relative to the script's folder; "" if there is none.
std::string named_file(const LuaTable& table, const std::string& field, const ScriptContext& context) {
  const auto* value = table.find(field);
  if (value == nullptr) return "";
  const fs::path file = context.resolve(value->text());
  if (!fs::is_regular_file(file))
    throw Error(ErrorCode::missing_file, "rush.external: no file '" + file.string() + "'",
                "relative paths start at the script's folder");
  return value->text();
}

/// Hashes of the files. Listed files must exist; words of the command may happen to be files.
std::map<std::string, std::string> hashed_files(const External& external,
                                                const std::vector<std::string>& listed,
                                                const ScriptContext& context) {
  std::map<std::string, std::string> hashes;
  for (const auto& word : external.command)
    if (const fs::path file = context.resolve(word); fs::is_regular_file(file))
      hashes[word] = sha256_file(file);
  for (const auto& name : listed) {
    const fs::path file = context.resolve(name);
    if (!fs::is_regular_file(file))
      throw Error(ErrorCode::missing_file, "rush.external: no file '" + file.string() + "'",
                  "relative paths start at the script's folder");
    hashes[name] = sha256_file(file);
  }
  return hashes;
}
}  // namespace

namespace functions {
Object external(ScriptContext& context, const Call& call) {
  const LuaTable& given = call.arguments.at("rung").table();
  Rung rung{.name = one_line(given.at("name").text(), "the name of a rung"), .where = call.where};
  rung.settings = settings_of(given);
  External external{.command = external_words(given, "command"),
                    .folder = context.script().parent_path(),
                    .preload = external_words(given, "preload")};
  if (external.command.empty() || external.command.front().empty())
    throw Error(ErrorCode::missing_value, "rush.external: the command is empty",
                R"(command = { "{python}", "train.py", ... })");
  check_placeholders(external.command);
  for (auto& word : external.command) word = placed(word, context);
  if (const auto* effect = given.find("effect"))
    external.effect = effect_from_string(effect->text(), call.where);
  if (const auto* interleave = given.find("interleave")) external.interleave = interleave->json().get<bool>();
  external.requirements = named_file(given, "requirements", context);
  external.packages = named_file(given, "packages", context);
  external.files = hashed_files(external, external_words(given, "files"), context);
  rung.external = std::move(external);
  return rung;
}
}  // namespace functions
}  // namespace optrush
