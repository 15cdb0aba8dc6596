#include "optrush/slot.h"

#include <c10/util/Exception.h>
#include <torch/csrc/jit/frontend/tracer.h>

#include "optrush/error.h"
#include "recipe/boundary.h"

namespace optrush {
bool tracing() { return torch::jit::tracer::isTracing(); }

void Editor::check_open(const std::string& what) const {
  if (sealed)
    throw Error(ErrorCode::invalid_plugin,
                what + " was edited after apply(), but the recipe is already resolved",
                "edit the recipe in apply(); an event handler may change parameters, not slots");
}

void SlotInfo::demand(Feature feature) {
  editor_->check_open("the slot '" + name_ + "'");
  demands_.push_back({feature, editor_->name});
}

void SlotInfo::own(Traits traits) {
  editor_->check_open("the slot '" + name_ + "'");
  if (!base_.plugin.empty() && base_.plugin != editor_->name)
    throw Error(
        ErrorCode::conflict,
        "plugins '" + base_.plugin + "' and '" + editor_->name + "' both replace the slot '" + name_ + "'",
        "stack one of them; a rung that adds one takes the other out: replace = \"" + base_.plugin +
            "\" or replace = \"" + editor_->name + "\"");
  base_ = {Phase::base, editor_->name, std::move(traits)};
}

size_t SlotInfo::add_wrap(Phase phase, Traits traits) {
  editor_->check_open("the slot '" + name_ + "'");
  Edit edit{phase, editor_->name, std::move(traits)};
  const auto place = std::upper_bound(wraps_.begin(), wraps_.end(), edit) - wraps_.begin();
  wraps_.insert(wraps_.begin() + place, std::move(edit));
  return static_cast<size_t>(place);
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
  std::terminate();  // not reached: call_plugin rethrows
}

void SlotInfo::refuse_trace(const std::string& place) {
  throw Error(ErrorCode::unsupported, place + " cannot be compiled: a tracer cannot see its operations",
              "remove it or the plugin compile from the stack, or declare the traits of the edit");
}

void SlotInfo::check() const {
  for (const auto& [feature, plugin] : demands_) {
    if (base().traits.has(feature)) continue;
    std::string offered;
    for (const auto& offer : base().traits.offers)
      offered += std::string(offered.empty() ? "'" : ", '").append(offer.name) + "'";
    throw Error(ErrorCode::unsupported,
                (plugin == "model" ? "the model" : "plugin '" + plugin + "'") + " needs '" +
                    std::string(feature.name) + "' of " + name_ + "; '" + base().plugin +
                    "' does not offer it (it offers " + (offered.empty() ? "nothing" : offered) + ")",
                "remove '" + base().plugin + "' from the stack, or use another plugin for " + name_);
  }
}
}  // namespace optrush
