#include <algorithm>
#include <set>
#include <vector>

#include "analysis/analysis.h"
#include "base/text.h"
#include "optrush/edit.h"
#include "optrush/options.h"
#include "spec/spec_json.h"

namespace optrush {
namespace {
/// Whether a part of the parameters is frozen, as beside an adapter.
bool freezes(const Plan& plan) {
  return plan.parameters && plan.parameters->trainable < plan.parameters->count;
}

/// The plugins that change the trained function, with their options.
std::set<std::string> model_plugins(const Plan& plan) {
  std::set<std::string> found;
  for (const UsedPlugin& plugin : plan.plugins)
    if (plugin.effect == Effect::model) found.insert(plugin.name + " " + plugin.options.dump());
  return found;
}
}  // namespace

std::string difference_of_problems(const Stored& of_subject, int64_t subject, const Stored& of_reference,
                                   int64_t reference) {
  const auto &a = of_subject.plan(subject), &b = of_reference.plan(reference);
  if (!a || !b) return "no plan to compare";
  const RunSpec &spec = of_subject.variant(subject).spec, &other = of_reference.variant(reference).spec;
  std::vector<std::string> parts;
  const auto count = [&](int64_t TrainSpec::*field, const std::string& what) {
    const int64_t now = a->problem.*field, then = b->problem.*field;
    if (now != then) parts.push_back(std::to_string(now) + " instead of " + std::to_string(then) + what);
  };
  count(&TrainSpec::global_batch, " sequences per step");
  count(&TrainSpec::seq_len, " tokens per sequence");
  if ((a->problem.overfit > 0) != (b->problem.overfit > 0)) parts.emplace_back("one repeated batch");
  if (a->model != b->model) parts.emplace_back("another model");
  if (other_parameters(*a, *b))
    parts.emplace_back("other trained parameters");
  else if (model_plugins(*a) != model_plugins(*b))
    parts.emplace_back("another function or task");
  if (spec.start != other.start || spec.weights_only != other.weights_only)
    parts.emplace_back("another start state");
  if (to_json(spec.data) != to_json(other.data))
    parts.emplace_back("other data");
  else if (held_out(spec) != held_out(other))
    parts.emplace_back("another held-out part of the data");
  return join(parts);
}

bool other_function(const Plan& a, const Plan& b) {
  return a.model != b.model || model_plugins(a) != model_plugins(b);
}

bool other_parameters(const Plan& a, const Plan& b) { return freezes(a) != freezes(b); }

bool same_work(const RunSpec& a, const RunSpec& b) {
  const bool same_plugins =
      std::ranges::equal(a.plugins, b.plugins, [](const PluginUse& one, const PluginUse& other) {
        return one.name == other.name && one.options == other.options;
      });
  return to_json(a.train) == to_json(b.train) && same_plugins && a.model == b.model &&
         a.model_kind == b.model_kind && to_json(a.data) == to_json(b.data) && held_out(a) == held_out(b);
}

bool same_task(const RunSpec& a, const RunSpec& b) {
  return a.model_kind == b.model_kind && a.model == b.model && to_json(a.data) == to_json(b.data) &&
         a.train.seq_len == b.train.seq_len;
}
}  // namespace optrush
