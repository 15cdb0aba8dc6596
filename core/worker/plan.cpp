#include "worker/plan.h"

#include "data/batches.h"
#include "measure/flops.h"
#include "spec/model_kinds.h"
#include "spec/spec_json.h"

namespace optrush {
namespace {
Json slots_of(const Recipe& recipe) {
  Json slots = Json::array();
  for (const SlotInfo* slot : recipe.slots()) {
    Json wraps = Json::array();
    for (const Edit& wrap : slot->wraps())
      wraps.push_back({{"phase", std::string(to_string(wrap.phase))}, {"plugin", wrap.plugin}});
    slots.push_back({{"slot", slot->name()}, {"base", slot->base().plugin}, {"wraps", wraps}});
  }
  return slots;
}

Json activations_of(const ActivationPolicy& policy) {
  Json shown = {{"policy", std::string(to_string(policy.policy))}};
  if (policy.policy == ActivationPolicy::Kind::selective) shown["keep"] = policy.keep;
  if (policy.policy == ActivationPolicy::Kind::budget) shown["budget"] = policy.budget;
  return shown;
}

Json parameters_of(const Session& session) {
  int64_t count = 0, trainable = 0, bytes = 0;
  for (const Param* param : session.params().all()) {
    count += param->numel();
    if (param->trainable) trainable += param->numel();
    bytes += param->numel() * static_cast<int64_t>(at::elementSize(param->dtype));
  }
  return {{"count", count}, {"trainable", trainable}, {"bytes", bytes}};
}
}  // namespace

Json make_plan(const Session& session) {
  const RunSpec& spec = session.spec();
  Json problem = to_json(spec.train);
  problem["global_batch"] = global_batch(spec.train, session.mesh());
  Json plan = {{"schema_version", 1},
               {"problem", problem},
               {"model_kind", spec.model_kind},
               {"model", spec.model},
               {"data", to_json(spec.data)},
               {"plugins", to_json(session.plugins())},
               {"slots", slots_of(session.recipe())},
               {"activations", activations_of(session.recipe().activations())},
               {"parameters", parameters_of(session)},
               {"notes", session.log().notes()}};
  // Of documents it follows from their lengths, which a plan does not read.
  if (!made_of_documents(spec.data)) {
    const auto flops = model_flops(session.model());
    const auto length = static_cast<double>(spec.train.seq_len);
    plan["flops_per_token"] = {{"mfu", flops.all(1, length)}, {"mfu_causal", flops.causal(1, length)}};
  }
  for (const auto& dim : session.mesh().dims())
    plan["mesh"].push_back({{"dim", dim.name}, {"size", dim.size}});
  for (const auto& kind : model_kinds())
    if (kind.name == spec.model_kind && kind.work != nullptr)
      plan["work"] = kind.work(spec.model, spec.train);
  return plan;
}
}  // namespace optrush
