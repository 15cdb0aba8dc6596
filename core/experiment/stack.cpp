#include "experiment/stack.h"

#include <algorithm>

#include "base/suggest.h"
#include "optrush/error.h"
#include "spec/spec_fields.h"
#include "spec/value.h"

namespace optrush {
namespace {
std::string rung_of(const Variant& variant) { return "rung '" + variant.name + "': "; }
}  // namespace

void check_stack(const Variant& variant, const Catalogue& catalogue) {
  std::vector<std::string> stacked;
  const auto is_new = [&](const std::string& name) {
    return std::ranges::find(variant.added, name, &PluginUse::name) != variant.added.end();
  };
  for (const auto& use : variant.spec.plugins) stacked.push_back(use.name);
  for (const auto& name : stacked) {
    const auto& plugin = catalogue.at(name);
    for (const auto& other : plugin.conflicts)
      if (std::ranges::count(stacked, other) != 0) {
        // The one that was there before the rung is the one that the rung can take off.
        const std::string& below = is_new(other) && !is_new(name) ? name : other;
        throw Error(rung_of(variant) + "plugins '" + name + "' and '" + other + "' conflict",
                    "take one off: without = \"" + below + "\" or replace = \"" + below + "\"",
                    variant.where);
      }
    for (const auto& other : plugin.requirements)
      if (std::ranges::count(stacked, other) == 0)
        throw Error(rung_of(variant) + "plugin '" + name + "' requires '" + other + "', which is not stacked",
                    "stack '" + other + "' in this rung or in one before it; stacked here: " + join(stacked),
                    variant.where);
  }
}

void check_dtype(const Json& settings, const std::function<Catalogue()>& catalogue,
                 const std::string& where) {
  const Json::json_pointer place("/train/dtype");
  const Json dtype = settings.contains(place) ? settings.at(place) : Json();
  const auto schemas = train_fields().schemas();
  const auto schema = std::ranges::find(schemas, "dtype", &OptionSchema::name);
  if (!dtype.is_string() || std::ranges::count(schema->choices, dtype.get<std::string>()) != 0) return;
  const Catalogue known = catalogue();
  for (const auto& plugin : known.plugins())
    for (const auto& option : plugin.options)
      if (option.name == "dtype" && std::ranges::count(option.choices, dtype.get<std::string>()) != 0)
        throw Error("train.dtype must be " + allowed(*schema) + ", but is " + dtype.dump() +
                        ": it is the type of the parameters",
                    "to compute in " + dtype.get<std::string>() + ", stack { \"" + plugin.name +
                        "\", { dtype = " + dtype.dump() + " } }",
                    where);
}
}  // namespace optrush
