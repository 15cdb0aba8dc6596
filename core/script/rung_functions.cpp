#include "base/files.h"
#include "base/suggest.h"
#include "script/functions.h"
#include "script/settings.h"
#include "spec/spec_json.h"

namespace optrush {
namespace fs = std::filesystem;
namespace {
std::vector<std::string> words_of(const LuaTable& table, const std::string& field) {
  const auto* value = table.find(field);
  if (value == nullptr) return {};
  if (value->is_string()) return {value->text()};
  return value->json().get<std::vector<std::string>>();
}

/// Refuses unknown placeholders, which would reach the program unchanged. `who` names the function.
void check_placeholders(const std::vector<std::string>& words, const std::string& who) {
  for (const auto& word : words)
    if (const auto unknown = unknown_placeholder(word); !unknown.empty())
      throw Error(
          ErrorCode::unknown_name,
          who + ": unknown placeholder '" + unknown + "'" + (unknown == word ? "" : " in '" + word + "'"),
          did_you_mean(unknown, placeholders()));
}

/// A file that a rung names: relative to the script, or else to the experiments that ship.
fs::path own_or_shipped(const std::string& name, const ScriptContext& context) {
  fs::path file = context.resolve(name);
  if (context.is_given(name) || fs::exists(file)) return file;
  fs::path shipped = (context.experiments() / name).lexically_normal();
  return fs::is_regular_file(shipped) ? shipped : file;
}

/// A word of a command. A file has a path that the program can find from the script's folder, where it runs.
std::string placed(const std::string& word, const ScriptContext& context) {
  const fs::path file = own_or_shipped(word, context);
  const bool elsewhere = context.is_given(word) || file != context.resolve(word);
  return elsewhere && fs::exists(file) ? file.string() : word;
}

/// Words of a command, checked and placed.
std::vector<std::string> command_words(const LuaTable& table, const std::string& field,
                                       const std::string& who, const ScriptContext& context) {
  std::vector<std::string> words = words_of(table, field);
  check_placeholders(words, who);
  for (auto& word : words) word = placed(word, context);
  return words;
}

fs::path existing_file(const std::string& name, const std::string& who, const ScriptContext& context) {
  fs::path file = own_or_shipped(name, context);
  if (fs::is_regular_file(file)) return file;
  throw Error(ErrorCode::missing_file, who + ": no file '" + file.string() + "'",
              "relative paths start at the script's folder");
}

/// A file named by the script, as placed() gives it; "" if there is none.
std::string named_file(const LuaTable& table, const std::string& field, const std::string& who,
                       const ScriptContext& context) {
  const auto* value = table.find(field);
  if (value == nullptr) return "";
  existing_file(value->text(), who, context);
  return placed(value->text(), context);
}

/// Hashes of the files. Those listed in `files` must exist; words of a command may happen to be files.
std::map<std::string, std::string> hashed_files(const std::vector<std::string>& words, const LuaTable& table,
                                                const std::string& who, const ScriptContext& context) {
  std::map<std::string, std::string> hashes;
  for (const auto& word : words)
    if (const fs::path file = context.resolve(word); fs::is_regular_file(file))
      hashes[word] = sha256_file(file);
  for (const auto& name : words_of(table, "files"))
    hashes[name] = sha256_file(existing_file(name, who, context));
  return hashes;
}

/// The change of a program that a rung's table describes.
void read_change(Rung& rung, const LuaTable& table, const ScriptContext& context) {
  ProgramChange change{.rung = rung.name,
                       .command = command_words(table, "command", "rush.rung", context),
                       .args = command_words(table, "args", "rush.rung", context)};
  std::vector<std::string> words = change.command;
  words.insert(words.end(), change.args.begin(), change.args.end());
  change.files = hashed_files(words, table, "rush.rung", context);
  if (const auto* effect = table.find("effect"))
    change.effect = effect_from_string(effect->text(), rung.where);
  for (const char* field : {"command", "args", "files", "effect"})
    if (table.has(field)) return rung.program.push_back(std::move(change));
}

/// Merges a table of settings into the settings of a rung.
void apply_settings(Rung& rung, const LuaTable& table, ScriptContext& context) {
  if (const auto* plugins = table.find("plugins")) {
    if (!rung.plugins.empty())
      throw Error(ErrorCode::conflict, "rush.rung: plugins are given twice",
                  "list all of them in plugins = { ... }");
    rung.plugins = plugin_uses(plugins->table().items, context, rung.where);
  }
  rung.settings = settings_of(table);
  if (const auto* expect = table.find("expect"))
    rung.expect = fields_of<Published>().read(to_json(*expect, "expect"), rung.where);
  rung.replace = words_of(table, "replace");
  rung.without = words_of(table, "without");
  table.read("over", rung.over);
  read_change(rung, table, context);
  if (!rung.replace.empty() && rung.plugins.empty())
    throw Error(ErrorCode::invalid_value, "rush.rung: replace needs a plugin of the rung as the replacement",
                "to remove a plugin, use without = ...");
}

}  // namespace

External program_of(const LuaTable& given, const std::string& who, const ScriptContext& context,
                    const std::string& where) {
  External external{.command = command_words(given, "command", who, context),
                    .folder = context.script().parent_path(),
                    .preload = words_of(given, "preload")};
  if (external.command.empty() || external.command.front().empty())
    throw Error(ErrorCode::missing_value, who + ": the command is empty",
                R"(command = { "{python}", "train.py", ... })");
  if (const auto* effect = given.find("effect")) external.effect = effect_from_string(effect->text(), where);
  given.read("interleave", external.interleave);
  given.read("headline", external.headline);
  external.requirements = named_file(given, "requirements", who, context);
  external.packages = named_file(given, "packages", who, context);
  external.files = hashed_files(external.command, given, who, context);
  return external;
}

namespace functions {
Object rung(ScriptContext& context, const Call& call) {
  Rung rung{.name = one_line(call.arguments.at("name").text(), "the name of a rung"), .where = call.where};
  const auto* plugin = call.arguments.find("plugin");
  const auto* options = call.arguments.find("options");
  const auto* settings = call.arguments.find("settings");
  if (plugin != nullptr && plugin->is_table()) {
    if (options != nullptr || settings != nullptr)
      throw Error(
          ErrorCode::invalid_value, "rush.rung: too many tables",
          "write rush.rung(name, plugin, options, settings), or rush.rung(name, settings) without a plugin");
    settings = plugin;
  } else if (plugin != nullptr) {
    rung.plugins = {plugin_use(plugin->text(), options, context, call.where)};
  } else if (options != nullptr) {
    throw Error(ErrorCode::missing_value, "rush.rung: options without a plugin",
                "write rush.rung(name, plugin, options)");
  }
  if (settings != nullptr) apply_settings(rung, settings->table(), context);
  return rung;
}

Object external(ScriptContext& context, const Call& call) {
  const LuaTable& given = call.arguments.at("rung").table();
  Rung rung{.name = one_line(given.at("name").text(), "the name of a rung"), .where = call.where};
  rung.settings = settings_of(given);
  given.read("over", rung.over);
  rung.external = program_of(given, "rush.external", context, call.where);
  return rung;
}

Object plugins(ScriptContext& context, const Call&) {
  Json list = Json::array();
  for (const auto& plugin : context.catalogue().plugins()) {
    Json options = Json::array();
    for (const auto& option : plugin.options)
      options.push_back(
          {{"name", option.name}, {"type", option.type}, {"doc", option.doc}, {"default", option.fallback}});
    list.push_back({{"name", plugin.name},
                    {"version", plugin.version},
                    {"summary", plugin.summary},
                    {"kind", plugin.kind},
                    {"effect", to_string(plugin.effect)},
                    {"options", std::move(options)}});
  }
  return list;
}
}  // namespace functions
}  // namespace optrush
