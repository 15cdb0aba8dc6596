#include "optrush/slot.h"

#include <c10/util/Exception.h>
#include <torch/csrc/jit/frontend/tracer.h>

#include "plugin/boundary.h"

namespace optrush {
bool tracing() { return torch::jit::tracer::isTracing(); }

std::vector<Edit> SlotInfo::wraps() const {
  auto sorted = wrap_edits_;
  std::stable_sort(sorted.begin(), sorted.end(), [](const Edit& a, const Edit& b) {
    return std::pair(a.phase, a.plugin) < std::pair(b.phase, b.plugin);
  });
  return sorted;
}

void SlotInfo::own(Traits traits) {
  if (!base_.plugin.empty() && base_.plugin != *editor_)
    throw Error("plugins '" + base_.plugin + "' and '" + *editor_ + "' both replace the slot '" + name_ + "'",
                "stack one of them, or let a rung put one in the place of the other: replace = \"" +
                    base_.plugin + "\"");
  base_ = edit(Phase::base, std::move(traits));
}

std::string SlotInfo::place(const std::string& plugin, const std::string& path) const {
  return (plugin.empty() ? "" : "plugin '" + plugin + "' in ") + "slot '" + name_ + "'" +
         (path.empty() ? "" : " of " + path);
}

void SlotInfo::throw_on(const std::string& place) {
  try {
    throw;
  } catch (const c10::Error& e) {
    if (!e.context().empty()) throw;
  } catch (...) {
  }
  call_plugin(place, [] { throw; });
  std::terminate();  // not reached: call_plugin throws what it caught
}

void SlotInfo::check() const {
  const auto& offers = base().traits.offers;
  for (const auto& [feature, plugin] : demands_) {
    if (std::find(offers.begin(), offers.end(), feature) != offers.end()) continue;
    std::string offered;
    for (const auto& offer : offers) offered += (offered.empty() ? "'" : ", '") + offer + "'";
    throw Error("plugin '" + plugin + "' needs '" + feature + "' of " + name_ + "; '" + base().plugin +
                    "' does not offer it (it offers " + (offered.empty() ? "nothing" : offered) + ")",
                "take '" + base().plugin + "' off the stack, or use another plugin for " + name_);
  }
}
}  // namespace optrush
