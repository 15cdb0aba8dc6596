#include <algorithm>

#include "script/functions.h"
#include "script/plugin_use.h"
#include "script/settings.h"
#include "spec/spec_json.h"

namespace optrush {
namespace {
std::vector<std::string> rung_words(const LuaTable& table, const std::string& field) {
  const auto* value = table.find(field);
  if (value == nullptr) return {};
  if (value->is_string()) return {value->text()};
  return value->json().get<std::vector<std::string>>();
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
    rung.expect = published_from_json(to_json(*expect, "expect"), rung.where);
  rung.replace = rung_words(table, "replace");
  rung.without = rung_words(table, "without");
  if (const auto* over = table.find("over")) rung.over = over->text();
  if (!rung.replace.empty() && rung.plugins.empty())
    throw Error(ErrorCode::invalid_value, "rush.rung: replace needs a plugin of the rung as the replacement",
                "to remove a plugin, use without = ...");
}
}  // namespace

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
