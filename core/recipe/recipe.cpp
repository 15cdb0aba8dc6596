#include "optrush/recipe.h"

#include <algorithm>

#include "plugin/boundary.h"

namespace optrush {
namespace {
Traits plain(std::vector<std::string> offers = {"double"}) {
  return {.trace = Trace::aten, .capturable = true, .offers = std::move(offers)};
}
}  // namespace

Ops::Ops(const std::string* editor)
    : embedding("embedding", editor, plain()),
      linear("linear", editor, plain()),
      norm("norm", editor, plain()),
      add_norm("add_norm", editor, plain()),
      position("position", editor, plain()),
      attention("attention", editor, plain({"double", "lse"})),
      swiglu("swiglu", editor, plain()),
      mlp("mlp", editor, plain()),
      head_loss("head_loss", editor, plain()) {}

std::vector<const SlotInfo*> Ops::all() const {
  return {&embedding, &linear, &norm, &add_norm, &position, &attention, &swiglu, &mlp, &head_loss};
}

Recipe::Recipe(RunSpec spec)
    : spec_(std::move(spec)),
      ops(&editor_),
      unit("unit", &editor_, plain()),
      data("data", &editor_, {}),
      stages("stages", &editor_, {}),
      data_parallel("data_parallel", &editor_, plain()),
      loss_gradient("loss_gradient", &editor_, plain()),
      gradients("gradients", &editor_, plain()),
      optimizer("optimizer", &editor_, {.offers = {"double"}}),
      schedule("schedule", &editor_, plain()) {}

std::vector<const SlotInfo*> Recipe::slots() const {
  auto all = ops.all();
  all.insert(all.end(),
             {&unit, &data, &stages, &data_parallel, &loss_gradient, &gradients, &optimizer, &schedule});
  return all;
}

Scopes::Entered Scopes::enter() const {
  std::vector<Guard> guards;
  guards.reserve(scopes_.size());
  for (const auto& scope : scopes_) guards.push_back(scope.enter());
  return Entered(std::move(guards));
}

std::string_view to_string(ActivationPolicy::Kind kind) {
  switch (kind) {
    case ActivationPolicy::Kind::save:
      return "save";
    case ActivationPolicy::Kind::selective:
      return "selective";
    case ActivationPolicy::Kind::budget:
      return "budget";
  }
  return "";
}

void Recipe::keep_activations(ActivationPolicy policy) {
  claim(&activations_, activations_ == policy);
  activations_ = std::move(policy);
}

void Recipe::scope(Phase phase, std::function<Scopes::Guard()> enter) {
  auto& scopes = scopes_.scopes_;
  scopes.push_back({{phase, editor_, {}}, std::move(enter)});
  // Outermost first, so the later phase comes first.
  std::stable_sort(scopes.begin(), scopes.end(), [](const auto& a, const auto& b) {
    return std::pair(a.edit.phase, a.edit.plugin) > std::pair(b.edit.phase, b.edit.plugin);
  });
}

void Recipe::on(Event event, Phase phase, std::function<void(Run&)> call) {
  handlers_.push_back({event, {phase, editor_, {}}, std::move(call)});
  std::stable_sort(handlers_.begin(), handlers_.end(), [](const auto& a, const auto& b) {
    return std::pair(a.edit.phase, a.edit.plugin) < std::pair(b.edit.phase, b.edit.plugin);
  });
}

void Recipe::fire(Event event, Run& run) const {
  for (const auto& handler : handlers_) {
    if (handler.event != event) continue;
    const std::string where =
        "plugin '" + handler.edit.plugin + "' in event " + std::string(to_string(event));
    call_plugin(where, [&] { handler.call(run); });
  }
}

void Recipe::claim(const void* field, bool same_value) {
  const auto [owner, fresh] = claims_.try_emplace(field, editor_);
  if (!fresh && owner->second != editor_ && !same_value)
    throw Error("plugins '" + owner->second + "' and '" + editor_ +
                    "' set the same training field to different values",
                "stack one of them");
}

void Recipe::check() const {
  for (const SlotInfo* slot : slots()) slot->check();
}
}  // namespace optrush
