#include <algorithm>

#include "experiment/experiment.h"

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

Rung rung_between(const Variant& from, const Variant& to, std::string name) {
  Rung rung{.name = std::move(name)};
  for (const auto& use : to.spec.plugins)
    if (!has(from.spec.plugins, use)) rung.plugins.push_back(use);
  for (const auto& use : from.spec.plugins)
    if (!has(to.spec.plugins, use)) rung.without.push_back(use.name);
  if (from.external && to.external) {
    const auto &before = from.external->changes, &now = to.external->changes;
    for (const auto& change : now)
      if (std::ranges::find(before, change) == before.end()) rung.program.push_back(change);
    for (const auto& change : before)
      if (std::ranges::find(now, change) == now.end()) rung.without.push_back(change.rung);
  }
  rung.settings = difference(settings_of(from.spec), settings_of(to.spec));
  return rung;
}
}  // namespace optrush
