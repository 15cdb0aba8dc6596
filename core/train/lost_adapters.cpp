#include "train/lost_adapters.h"

#include <algorithm>

#include "optrush/error.h"

namespace optrush {
namespace {
constexpr const char* kFeature = "adapters";

/// The plugins that wrap `linear` as an adapter, for a message: "plugin 'a'", "plugins 'a' and 'b'".
std::string adapters_of(const Recipe& recipe) {
  std::string names;
  size_t count = 0;
  for (const Edit& wrap : recipe.ops.linear.wraps())
    if (wrap.phase == Phase::adapter) names += (count++ > 0 ? " and '" : "'") + wrap.plugin + "'";
  return count == 0 ? "a plugin" : (count == 1 ? "plugin " : "plugins ") + names;
}
}  // namespace

LostAdapters::LostAdapters(const Run& run) : run_(run) {
  for (const Module* module : run.modules("linear")) declared_.emplace_back(module, module->params.size());
}

void LostAdapters::refuse(const Recipe& recipe) const {
  refuse(recipe.ops.mlp, "mlp", recipe);
  refuse(recipe.ops.head_loss, "head_loss", recipe);
}

void LostAdapters::refuse(const SlotInfo& slot, const std::string& role, const Recipe& recipe) const {
  const Edit& base = slot.base();
  if (base.plugin == "plain" || std::ranges::count(base.traits.offers, kFeature) > 0) return;
  for (const Module* module : run_.modules(role)) {
    for (const auto& [linear, own] : declared_) {
      const Param* matrix = linear->params.at(0);
      if (linear->params.size() == own || std::ranges::count(module->params, matrix) == 0) continue;
      throw Error(ErrorCode::conflict,
                  "plugin '" + base.plugin + "' replaces " + slot.name() + " and would ignore '" +
                      linear->params[own]->name + "', which " + adapters_of(recipe) + " added to " +
                      linear->path + ": it does not offer \"" + kFeature + "\"",
                  "remove '" + linear->path + "' from the adapter's targets, or '" + base.plugin +
                      "' from the stack");
    }
  }
}
}  // namespace optrush
