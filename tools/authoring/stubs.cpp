#include "authoring/stubs.h"

#include "authoring/new_plugin.h"
#include "base/text.h"
#include "script/api.h"
#include "script/functions.h"

namespace optrush {
namespace {
std::string literals(const std::vector<std::string>& choices) { return "\"" + join(choices, "\"|\"") + "\""; }

std::string annotated(const std::vector<std::string>& choices, const Type& type) {
  if (type.form == Type::Form::map) return "table<string, " + type.name + ">";
  if (type.form == Type::Form::list) return type.name + "[]";
  if (type.name == "list") return choices.empty() ? "string[]" : "(" + literals(choices) + ")[]";
  if (type.name == "integers") return "table<string, integer>";
  if (type.name == "numbers") return "table<string, number>";
  if (type.name == "folder") return "string";
  if (type.name == "string" && !choices.empty()) return literals(choices);
  return type.name;
}

/// The type in the notation of the Lua language server.
std::string annotated(const OptionSchema& schema) {
  std::vector<std::string> texts;
  for (const auto& type : alternatives(schema.type)) texts.push_back(annotated(schema.choices, type));
  return join(texts, "|");
}

std::string limits(const OptionSchema& schema) {
  std::vector<std::string> parts;
  if (!schema.min.is_null()) parts.push_back("at least " + schema.min.dump());
  if (!schema.max.is_null()) parts.push_back("at most " + schema.max.dump());
  if (!schema.fallback.is_null() && schema.fallback != Json(""))
    parts.push_back("default " + schema.fallback.dump());
  return parts.empty() ? "" : " (" + join(parts) + ")";
}

std::string entry(const std::string& tag, const OptionSchema& schema) {
  return "---@" + tag + " " + schema.name + (required(schema) ? " " : "? ") + annotated(schema) + " " +
         schema.doc + limits(schema) + "\n";
}

std::string class_stub(const Class& known) {
  if (known.kind == Class::Kind::alias)
    return "---" + known.doc + "\n---@alias " + known.name + " " + known.alias + "\n\n";
  std::string text = "---" + known.doc + "\n---@class " + known.name + "\n";
  for (const auto& field : known.fields) text += entry("field", field);
  for (const auto& function : api().functions)
    if (function.property && function.owner == known.name)
      text += "---@field " + function.name + " " + function.returns + " " + function.doc + "\n";
  if (known.kind == Class::Kind::object) text += "local " + known.name + " = {}\n";
  return text + "\n";
}

/// "some_plugin" becomes "SomePluginOptions".
std::string options_class(const std::string& plugin) { return camel_case(plugin) + "Options"; }

std::string options_stub(const PluginDescription& plugin) {
  std::string text = "---" + plugin.summary + "\n---@class " + options_class(plugin.name) + "\n";
  for (const auto& option : plugin.options) text += entry("field", option);
  return text + "\n";
}

/// The overload of rush.rung for a plugin and its options.
std::string overload(const PluginDescription& plugin) {
  return "---@overload fun(name: string, plugin: \"" + plugin.name +
         "\", options?: " + options_class(plugin.name) + ", settings?: RungSettings): Rung\n";
}

std::string function_stub(const Function& function, const std::vector<PluginDescription>& plugins) {
  std::string text = "---" + function.doc + "\n", names;
  for (const auto& parameter : function.parameters) {
    text += entry("param", parameter);
    names += (names.empty() ? "" : ", ") + parameter.name;
  }
  text += "---@return " + function.returns + (function.returns == function.owner ? " # itself" : "") + "\n";
  if (function.call == functions::rung)
    for (const auto& plugin : plugins) text += overload(plugin);
  const std::string owner = function.owner.empty() ? "rush." : function.owner + ":";
  return text + "function " + owner + function.name + "(" + names + ") end\n\n";
}
}  // namespace

std::string lua_stubs(const std::vector<PluginDescription>& plugins) {
  std::string text =
      "---@meta optrush\n"
      "-- Made from the binding table (core/script/api.h); OPTRUSH_UPDATE_GOLDENS=1 makes test_script "
      "write it.\n"
      "error(\"editor stubs cannot be required\")\n\n";
  for (const auto& known : api().classes) text += class_stub(known);
  for (const auto& plugin : plugins) text += options_stub(plugin);
  text +=
      "---Measures the speed and memory effect of each training optimization: docs/reference/lua.md.\nlocal "
      "rush = {}\n\n";
  for (const auto& function : api().functions)
    if (!function.property) text += function_stub(function, plugins);
  return text + "return rush\n";
}
}  // namespace optrush
