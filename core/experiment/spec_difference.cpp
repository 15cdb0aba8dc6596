#include "experiment/spec_difference.h"

#include <algorithm>

namespace optrush {
Json difference(const Json& before, const Json& now) {
  Json changed = Json::object();
  for (const auto& [key, value] : now.items()) {
    const auto old = before.find(key);
    const bool known = old != before.end();
    if (known && value == *old) continue;
    changed[key] = known && value.is_object() && old->is_object() ? difference(*old, value) : value;
  }
  return changed;
}

Json settings_of(const RunSpec& spec) {
  const Json all = to_json(spec);
  Json settings = Json::object();
  for (const char* key : {"model_kind", "model", "data", "train", "device", "threads", "env", "timeout_s"})
    settings[key] = all.at(key);
  return settings;
}

bool has(const std::vector<PluginUse>& plugins, const PluginUse& wanted) {
  return std::ranges::any_of(plugins, [&](const PluginUse& use) {
    return use.name == wanted.name && use.options == wanted.options;
  });
}

Rung rung_between(const RunSpec& from, const RunSpec& to, std::string name) {
  Rung rung{.name = std::move(name)};
  for (const auto& use : to.plugins)
    if (!has(from.plugins, use)) rung.plugins.push_back(use);
  for (const auto& use : from.plugins)
    if (!has(to.plugins, use)) rung.without.push_back(use.name);
  rung.settings = difference(settings_of(from), settings_of(to));
  return rung;
}
}  // namespace optrush
