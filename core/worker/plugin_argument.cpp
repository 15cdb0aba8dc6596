#include "worker/plugin_argument.h"

#include <algorithm>

#include "base/text.h"
#include "optrush/error.h"

namespace optrush {
namespace {
std::string type_of(const std::string& option, const PluginDescription& plugin) {
  const auto schema = std::ranges::find(plugin.options, option, &OptionSchema::name);
  return schema == plugin.options.end() ? "string"
                                        // an unknown option is reported by the check of the options
                                        : schema->type;
}

Json value_of(const std::string& type, const std::string& text) {
  if (type == "list") return text.empty() ? Json::array() : Json::array({text});
  if (type == "string" || type == "folder" || !Json::accept(text)) return text;
  return Json::parse(text);
}
}  // namespace

PluginUse parse_plugin_argument(const std::string& argument, const Catalogue& catalogue) {
  const auto fail = [&](const std::string& what) {
    throw UsageError("--plugin " + argument + ": " + what, "write --plugin NAME:key=value,key=value");
  };
  const auto colon = argument.find(':');
  PluginUse use{.name = argument.substr(0, colon)};
  const PluginDescription& plugin = catalogue.at(use.name);
  if (colon == std::string::npos) return use;
  std::string key;
  for (const std::string& piece : split(argument.substr(colon + 1), ",")) {
    const auto equals = piece.find('=');
    if (equals == std::string::npos) {
      if (key.empty() || type_of(key, plugin) != "list") fail("'" + piece + "' is not key=value");
      use.options[key].push_back(piece);
      continue;
    }
    key = piece.substr(0, equals);
    if (use.options.contains(key)) fail("'" + key + "' is given twice");
    use.options[key] = value_of(type_of(key, plugin), piece.substr(equals + 1));
  }
  return use;
}
}  // namespace optrush
