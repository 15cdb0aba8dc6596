#include "worker/plugin_argument.h"

#include "base/text.h"
#include "optrush/error.h"

namespace optrush {
namespace {
Json value_of(const std::string& type, const std::string& text) {
  if (type == "list") return text.empty() ? Json::array() : Json::array({text});
  // "": an unknown option, which the check of the options reports
  if (type.empty() || type == "string" || type == "folder" || !Json::accept(text)) return text;
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
      if (key.empty() || plugin.type_of(key) != "list") fail("'" + piece + "' is not key=value");
      use.options[key].push_back(piece);
      continue;
    }
    key = piece.substr(0, equals);
    if (use.options.contains(key)) fail("'" + key + "' is given twice");
    use.options[key] = value_of(plugin.type_of(key), piece.substr(equals + 1));
  }
  return use;
}
}  // namespace optrush
