#include <iostream>
#include <memory>

#include "authoring/commands.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/option_parts.h"
#include "plugin/description.h"
#include "report/writers/writers.h"
#include "spec/spec_json.h"
#include "spec/value.h"

namespace optrush {
namespace {
Json to_json(const OptionSchema& option) {
  Json effects = Json::object();
  for (const auto& [choice, effect] : option.effects) effects[choice] = std::string(to_string(effect));
  return {{"name", option.name}, {"type", option.type}, {"default", option.fallback},
          {"min", option.min},   {"max", option.max},   {"choices", option.choices},
          {"effects", effects},  {"doc", option.doc}};
}

Json to_json(const PluginDescription& plugin) {
  Json options = Json::array();
  for (const auto& option : plugin.options) options.push_back(to_json(option));
  return {{"name", plugin.name},
          {"version", plugin.version},
          {"kind", plugin.kind},
          {"effect", std::string(to_string(plugin.effect))},
          {"per_micro_batch", plugin.per_micro_batch},
          {"summary", plugin.summary},
          {"doc", plugin.doc},
          {"conflicts", plugin.conflicts},
          {"requirements", plugin.requirements},
          {"needs", plugin.needs},
          {"file", plugin.file.string()},
          {"api", plugin.api},
          {"abi", plugin.abi},
          {"options", options}};
}

Json to_json(const Catalogue& catalogue) {
  Json plugins = Json::array(), unusable = Json::array();
  for (const auto& plugin : catalogue.plugins()) plugins.push_back(to_json(plugin));
  for (const auto& [file, reason] : catalogue.unusable())
    unusable.push_back({{"file", file.string()}, {"reason", reason}});
  return {{"plugins", plugins}, {"unusable", unusable}};
}

std::string list(const Catalogue& catalogue) {
  Table table({"plugin", "version", "effect", "summary"});
  for (const auto& plugin : catalogue.plugins())
    table.rows.push_back(
        {plugin.name, plugin.version, std::string(to_string(plugin.effect)), plugin.summary});
  std::string text = table.rows.empty() ? "no plugins were found\n" : text_table(table);
  for (const auto& [file, reason] : catalogue.unusable())
    text += "\ncan't be used: " + file.string() + "\n  " + reason + "\n";
  return as_typed(text + "\nDetails of a plugin: optrush plugins NAME\n");
}

std::string details(const PluginDescription& plugin) {
  std::string text = plugin.name + " " + plugin.version + ": " + plugin.summary + "\n";
  if (!plugin.doc.empty()) text += "\n" + plugin.doc + "\n";
  text += "\n";
  const auto fact = [&](const std::string& name, const std::string& value) {
    if (!value.empty()) text += name + ": " + value + "\n";
  };
  fact("kind", plugin.kind);
  fact("effect",
       std::string(to_string(plugin.effect)) +
           (plugin.per_micro_batch ? "; its loss depends on the sequences that share a micro-batch" : ""));
  fact("requires", join(plugin.requirements));
  fact("conflicts with", join(plugin.conflicts));
  fact("needs", join(plugin.needs));
  fact("file", plugin.file.string());
  if (plugin.options.empty()) return text + "\nno options\n";
  Table table({"option", "allowed", "default", "meaning"});
  for (const auto& option : plugin.options)
    table.rows.push_back({option.name, allowed(option),
                          option.fallback.is_null() ? "required" : shown(option.fallback), option.doc});
  text += "\n" + text_table(table);
  for (const auto& option : plugin.options)
    for (const auto& [choice, effect] : option.effects)
      text += "\nwith " + option.name + " = " + choice + " its effect is " + std::string(to_string(effect));
  return text + (text.ends_with('\n') ? "" : "\n");
}
}  // namespace

void authoring::add_plugins(CLI::App& app, int& code) {
  struct Options {
    std::string name;
    std::vector<std::string> folders;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  auto* command = app.add_subcommand("plugins", "list the plugins, or describe one");
  command->add_option("name", options->name, "name of a plugin");
  command->add_flag("--json", options->json, "print JSON");
  add_plugin_path(*command, options->folders);
  command->callback([options, &code] {
    const Catalogue catalogue = Catalogue::find(options->folders);
    const bool one = !options->name.empty();
    const auto json = [&] { return one ? to_json(catalogue.at(options->name)) : to_json(catalogue); };
    if (options->json)
      std::cout << json().dump(2) << std::endl;
    else
      std::cout << (one ? details(catalogue.at(options->name)) : list(catalogue)) << std::flush;
    code = kOk;
  });
}
}  // namespace optrush
