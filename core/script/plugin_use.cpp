#include "script/plugin_use.h"
#include "spec/spec_json.h"

namespace optrush {
PluginUse plugin_use(const std::string& name, const LuaValue* options, ScriptContext& context,
                     const std::string& where) {
  const auto& plugin = context.catalogue().at(name);
  const std::string place = where + ", plugin '" + name + "'";
  try {
    const Json given = options == nullptr ? Json::object() : to_json(*options, "options");
    return {name, Options(plugin.options, given, place).json()};
  } catch (const Error& e) {
    throw e.at(place);
  }
}

std::vector<PluginUse> plugin_uses(const std::vector<LuaValue>& list, ScriptContext& context,
                                   const std::string& where) {
  std::vector<PluginUse> uses;
  for (const auto& item : list) {
    if (item.is_string()) {
      uses.push_back(plugin_use(item.text(), nullptr, context, where));
      continue;
    }
    const auto& [parts, fields] = item.table();
    const bool valid = fields.empty() && (parts.size() == 1 || parts.size() == 2) && parts[0].is_string() &&
                       (parts.size() == 1 || parts[1].is_table());
    if (!valid)
      throw Error(ErrorCode::invalid_value,
                  "plugins[" + std::to_string(uses.size() + 1) +
                      "] must be the name of a plugin, or its name and options",
                  R"(plugins = { "name", { "name", { option = value } } })");
    uses.push_back(plugin_use(parts[0].text(), parts.size() == 2 ? &parts[1] : nullptr, context, where));
  }
  return uses;
}
}  // namespace optrush
