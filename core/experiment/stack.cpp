#include "experiment/stack.h"

#include <algorithm>

#include "base/suggest.h"
#include "optrush/error.h"

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
}  // namespace optrush
