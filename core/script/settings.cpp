#include "script/settings.h"

#include "base/printable.h"
#include "experiment/stack.h"
#include "optrush/error.h"
#include "spec/spec_json.h"

namespace optrush {
namespace {
constexpr size_t kLongestLine = 80;

/// The absolute path of an existing folder, or an empty path.
std::string folder_of(const OptionSchema& option, const std::string& path, const ScriptContext& context) {
  const auto folder = path.empty() ? std::filesystem::path() : context.resolve(path);
  if (!path.empty() && !std::filesystem::is_directory(folder))
    throw Error(ErrorCode::missing_file, "option '" + option.name + "': no folder '" + folder.string() + "'",
                context.start_of(path));
  return folder;
}
}  // namespace

Json settings_of(const LuaTable& table) {
  Json settings = Json::object();
  if (const auto* model = table.find("model")) {
    if (model->is<ModelChoice>())  // a complete model, which replaces the one before
      settings = {{"model_kind", model->object<ModelChoice>().kind},
                  {"model", model->object<ModelChoice>().fields}};
    else
      settings["model"] = to_json(*model, "model");
  }
  if (const auto* data = table.find("data")) settings["data"] = to_json(data->object<DataSpec>());
  if (const auto* train = table.find("train")) settings["train"] = to_json(*train, "train");
  if (const auto* env = table.find("env")) settings["env"] = to_json(*env, "env");
  for (const auto& [name, in_spec] :
       {std::pair("device", "device"), {"threads", "threads"}, {"timeout", "timeout_s"}})
    if (const auto* value = table.find(name)) settings[in_spec] = value->json();
  return settings;
}

void check_dtype_of(const LuaValue& settings, ScriptContext& context, const std::string& where) {
  const auto field = [](const LuaValue* value, const char* name) {
    return value != nullptr && value->is_table() ? value->table().find(name) : nullptr;
  };
  const LuaValue* dtype = field(field(&settings, "train"), "dtype");
  if (dtype == nullptr || !dtype->is_string()) return;
  const Json given = {{"train", {{"dtype", dtype->text()}}}};
  check_dtype(
      given, [&] { return context.catalogue(); }, where);
}

std::string one_line(const std::string& text, const std::string& what) {
  if (text.empty() || text.size() > kLongestLine)
    throw Error(
        ErrorCode::invalid_value, what + " must be one line of 1 to 80 bytes",
        text.empty() ? "write at least one character" : "shorten it: it is a table entry of the report");
  if (has_hidden_character(text))
    throw Error(ErrorCode::invalid_value,
                what + " contains an invisible character, such as a line end: '" + printable(text) + "'",
                "remove the character: tables and charts show the text");
  return text;
}

PluginUse plugin_use(const std::string& name, const LuaValue* options, ScriptContext& context,
                     const std::string& where) {
  const auto& plugin = context.catalogue().at(name);
  const std::string place = where + ", plugin '" + name + "'";
  try {
    const Json given = options == nullptr ? Json::object() : to_json(*options, "options");
    Json set = Options(plugin.options, given, place).json();
    for (const auto& option : plugin.options)
      if (option.type == "folder") set[option.name] = folder_of(option, set[option.name], context);
    return {name, std::move(set)};
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
