#include "data/batches.h"
#include "measure/flops.h"
#include "plugin/loader.h"
#include "spec/model_kinds.h"
#include "spec/spec_json.h"
#include "train/session.h"
#include "worker/predict.h"

namespace optrush {
namespace {
std::vector<UsedPlugin> used_plugins(const Session& session) {
  std::vector<UsedPlugin> used;
  for (const auto& plugin : session.plugins()) {
    const auto& d = plugin.description;
    used.push_back({.name = d.name,
                    .version = d.version,
                    .file = d.file.string(),
                    .sha256 = plugin.sha256,
                    .effect = d.effect_with(plugin.options.json()),
                    .options = plugin.options.json(),
                    .per_micro_batch = d.per_micro_batch});
  }
  return used;
}

std::vector<PlannedSlot> slots_of(const Recipe& recipe) {
  std::vector<PlannedSlot> slots;
  for (const SlotInfo* slot : recipe.slots()) {
    slots.push_back({.slot = slot->name(), .base = slot->base().plugin, .wraps = {}});
    for (const Edit& wrap : slot->wraps())
      slots.back().wraps.push_back({std::string(to_string(wrap.phase)), wrap.plugin});
  }
  return slots;
}

Json activations_of(const ActivationPolicy& policy) {
  Json shown = {{"policy", std::string(to_string(policy.policy))}};
  if (policy.policy == ActivationPolicy::Kind::selective) shown["keep"] = policy.keep;
  if (policy.policy == ActivationPolicy::Kind::budget) shown["budget"] = policy.budget;
  return shown;
}

PlannedParameters parameters_of(const Session& session) {
  PlannedParameters found{.kept = 0};
  for (const Param& param : session.params().declared()) {
    found.count += param.numel();
    if (param.trainable) found.trainable += param.numel();
    found.bytes += param.numel() * static_cast<int64_t>(at::elementSize(param.dtype));
  }
  for (const Param* param : session.params().all()) *found.kept += param->layout.numel();
  return found;
}
}  // namespace

Plan make_plan(const Session& session) {
  const RunSpec& spec = session.spec();
  Plan plan{.problem = spec.train,
            .model_kind = spec.model_kind,
            .model = spec.model,
            .data = to_json(spec.data),
            .plugins = used_plugins(session),
            .slots = slots_of(session.recipe()),
            .activations = activations_of(session.recipe().activations()),
            .parameters = parameters_of(session),
            .notes = session.log().notes()};
  plan.problem.global_batch = global_batch(spec.train, session.mesh());
  // With documents it depends on their lengths.
  if (!made_of_documents(spec.data)) {
    const auto flops = model_flops(session.model());
    const int64_t length = spec.train.seq_len;
    const double pairs = session.model().attention_pairs.of(length) / static_cast<double>(length);
    plan.flops_per_token = {.mfu = flops.all(1, pairs), .mfu_causal = flops.causal(1, pairs)};
  }
  for (const auto& dim : session.mesh().dims()) plan.mesh.push_back({dim.name, dim.size});
  for (const auto& kind : model_kinds())
    if (kind.name == spec.model_kind && kind.work != nullptr) plan.work = kind.work(spec.model, spec.train);
  return plan;
}
}  // namespace optrush
