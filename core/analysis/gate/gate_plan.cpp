#include <algorithm>
#include <numeric>
#include <set>
#include <tuple>

#include "analysis/gate/gate.h"
#include "base/text.h"
#include "spec/spec_json.h"

namespace optrush {
namespace {
/// Length of probe and reference runs: an error of the optimizer appears in the loss within these steps.
constexpr int64_t kProbeSteps = 4, kProbeWarmup = 2;

struct Use {
  std::string name;
  const Json* options;
  Effect effect;
  bool per_micro_batch;
  bool operator==(const Use& other) const {
    return name == other.name && effect == other.effect && *options == *other.options;
  }
};

/// Everything that determines the losses of a run. It refers to a variant and its plan, because there may be
/// thousands.
struct Setup {
  TrainSpec train;  ///< after the plugins' edits
  const Json* model;
  const RunSpec* spec;  ///< for the data and the machine
  std::vector<Use> plugins;

  bool uses(Effect effect) const { return std::ranges::count(plugins, effect, &Use::effect) != 0; }
  /// The number of ranks that split the batch: fewer than world_size if others split the model.
  int64_t data_ranks() const { return train.global_batch / (train.micro_batch * train.accumulation); }
  bool reduced() const { return train.dtype == "bf16" || uses(Effect::precision); }
  Arithmetic arithmetic() const {
    return reduced() ? Arithmetic::reduced : train.dtype == "fp64" ? Arithmetic::fp64 : Arithmetic::fp32;
  }
};

struct Difference {
  Effect effect = Effect::exact;  ///< widest effect, except batch and model
  bool any = false, batch = false, model = false;
  bool same_task() const { return !batch && !model; }
  void add(Effect e) {
    any = true;
    if (e == Effect::model)
      model = true;
    else
      effect = std::max(effect, e == Effect::batch ? Effect::rounding : e);
  }
};

std::vector<Use> uses_of(const Plan& plan) {
  std::vector<Use> uses;
  for (const UsedPlugin& plugin : plan.plugins)
    uses.push_back({plugin.name, &plugin.options, plugin.effect, plugin.per_micro_batch});
  std::ranges::sort(uses, {}, &Use::name);
  return uses;
}

Difference difference(const Setup& a, const Setup& b) {
  Difference d;
  const auto missing_in = [&](const Setup& from, const Setup& in) {
    for (const Use& use : from.plugins)
      if (std::ranges::count(in.plugins, use) == 0) d.add(use.effect);
  };
  missing_in(a, b);
  missing_in(b, a);
  const auto task = [](const TrainSpec& t) {
    return std::tuple(t.seed, t.lr, t.lr_warmup, t.lr_decay, t.lr_steps, t.lr_min, t.beta1, t.beta2, t.eps,
                      t.weight_decay, t.overfit > 0);
  };
  if (task(a.train) != task(b.train) || *a.model != *b.model ||
      (a.spec != b.spec && to_json(a.spec->data) != to_json(b.spec->data)))
    d.add(Effect::model);
  if (a.train.global_batch != b.train.global_batch || a.train.seq_len != b.train.seq_len)
    d.any = d.batch = true;
  if (a.train.micro_batch != b.train.micro_batch || a.train.accumulation != b.train.accumulation)
    d.add(Effect::batch);
  // Other micro-batches have another loss. At an equal global batch, more micro-batches are smaller ones.
  if (std::ranges::count(a.plugins, true, &Use::per_micro_batch) != 0 &&
      (a.train.micro_batch != b.train.micro_batch || d.batch))
    d.add(Effect::model);
  if (a.train.world_size != b.train.world_size) d.add(Effect::rounding);  // another order of sums
  if (a.train.dtype != b.train.dtype) d.add(Effect::precision);
  const auto machine = [](const RunSpec& spec) {
    return std::tie(spec.device, spec.threads, spec.environment);
  };
  if (machine(*a.spec) != machine(*b.spec)) d.add(Effect::rounding);
  return d;
}

/// Plans the check of a variant. It tries the ways of comparing in order, the strictest first.
class Planner {
 public:
  Planner(const std::vector<Variant>& variants, const Plans& plans, int64_t index)
      : variants_(variants), plans_(plans), variant_(variant(index)), setup_(setup(index)) {
    check_.variant = index;
    check_.overfit = variant_.spec.train.overfit;
    for (int64_t i = variant_.previous; i >= 0; i = variant(i).previous)
      if (plans.at(static_cast<size_t>(i))) ancestors_.push_back(i);
  }

  GateCheck plan() {
    if (variant_.previous < 0)
      check_.explanation = "the base, which the other rungs are compared with";
    else if (!with_ancestor() && !with_plain_form() && !with_neighbour() && !at_equal_batch())
      only_fall("there is no run to compare it with");
    if (check_.compares() && check_.allowed.loss < check_.allowed_if_irreproducible.loss)
      check_.repeat = repeated_reference();
    return std::move(check_);
  }

 private:
  Setup setup(int64_t index) const {
    const Plan& plan = plans_.at(static_cast<size_t>(index)).value();
    return {plan.problem, &plan.model, &variant(index).spec, uses_of(plan)};
  }
  const Variant& variant(int64_t index) const { return variants_.at(static_cast<size_t>(index)); }
  std::string quoted(int64_t index) const { return "'" + variant(index).name + "'"; }

  void compare(const Difference& d, const Setup& a, const Setup& b) {
    const Arithmetic arithmetic = std::max(a.arithmetic(), b.arithmetic());
    check_.effect = d.effect;
    const Allowance rounding = allowance_of(Effect::rounding, arithmetic);
    check_.allowed = allowance_of(d.effect, arithmetic);
    check_.allowed_if_irreproducible = {std::max(check_.allowed.loss, rounding.loss),
                                        std::max(check_.allowed.norm, rounding.norm)};
  }

  void compare_with(int64_t reference) {
    const Setup other = setup(reference);
    compare(difference(setup_, other), setup_, other);
    check_.reference_variant = reference;
    check_.explanation = "every step is compared with " + quoted(reference);
  }

  /// Compares with a rung of the same task: the previous one, or for lower precision the last one in full
  /// precision.
  bool with_ancestor() {
    const auto same_task = [&](int64_t i) { return difference(setup_, setup(i)).same_task(); };
    const auto nearest = std::ranges::find_if(ancestors_, same_task);
    if (nearest == ancestors_.end()) return false;
    int64_t chosen = *nearest;
    if (difference(setup_, setup(chosen)).effect == Effect::precision) {
      const auto full = [&](int64_t i) { return !setup(i).reduced() && same_task(i); };
      if (const auto found = std::find_if(nearest, ancestors_.end(), full); found != ancestors_.end())
        chosen = *found;
    }
    compare_with(chosen);
    if (check_.effect == Effect::precision && !setup(chosen).reduced())
      check_.explanation += ", the last rung in " + setup(chosen).train.dtype;
    return true;
  }

  /// In a grid, compares with an earlier combination of the same task, preferably in full precision.
  bool with_neighbour() {
    if (variant_.group != "grid") return false;
    int64_t chosen = -1;
    for (int64_t i = 0; i < variant_.index; ++i) {
      const auto at = static_cast<size_t>(i);
      if (variants_[at].group != "grid" || !plans_.at(at)) continue;
      const Setup other = setup(i);
      const bool full = !other.reduced();
      if ((chosen >= 0 && !full) || !difference(setup_, other).same_task()) continue;
      chosen = i;
      if (full) break;
    }
    if (chosen < 0) return false;
    compare_with(chosen);
    check_.explanation += ", of the same problem";
    return true;
  }

  /// The variant has another function or task. Its plain form is the base's plugins and the plugins that
  /// change it.
  bool with_plain_form() {
    if (ancestors_.empty() || !difference(setup_, setup(ancestors_.front())).model) return false;
    if (variant_.external) {  // a worker can't run its plain form
      only_fall("the external program trains a different function or task");
      return true;
    }
    std::set<std::string> kept;
    for (const auto& use : variants_.front().spec.plugins) kept.insert(use.name);
    for (const auto& use : setup_.plugins)
      if (use.effect == Effect::model) kept.insert(use.name);
    Setup plain = setup_;
    std::erase_if(plain.plugins, [&](const Use& use) { return !kept.contains(use.name); });
    if (!difference(setup_, plain).any) {
      only_fall("the rung trains a different function or task, and no reference exists");
      return true;
    }
    if (!take_ranks_of_base(plain) || difference(setup_, plain).model) {
      only_fall("the rung trains a different function or task, and the base's ranks cannot make its batch");
      return true;
    }
    RunSpec run = extra(Purpose::reference, variant_.spec);
    std::erase_if(run.plugins, [&](const PluginUse& use) { return !kept.contains(use.name); });
    run.train.world_size = plain.train.world_size;
    run.train.micro_batch = plain.train.micro_batch;
    // If a plugin of the plain form also accumulates, the spec must not.
    if (!plain.uses(Effect::batch)) run.train.accumulation = plain.train.accumulation;
    run.train.global_batch = 0;
    compare(difference(setup_, plain), setup_, plain);
    check_.reference = run;
    check_.must_fall = true;
    check_.explanation =
        "the rung trains a different function or task: every step is compared with its reference (the base "
        "with " +
        (run.plugins.empty() ? "its settings" : join(texts_of(run.plugins, &PluginUse::name))) +
        on_ranks(run) + "), and the loss must fall";
    return true;
  }

  /// The plain form may lack the plugins that connect more ranks than the base has, or that leave fewer of
  /// them for the data. Then it makes the same batch on the base's ranks. Returns false if it can't.
  bool take_ranks_of_base(Setup& plain) const {
    TrainSpec& train = plain.train;
    const int64_t world = variants_.front().spec.train.world_size;
    const int64_t ranks = !plans_.front() ? world : setup(0).data_ranks();
    if (train.world_size == world && plain.data_ranks() == ranks) return true;
    if (train.global_batch % ranks != 0) return false;
    const int64_t on_each = train.global_batch / ranks;
    if (plain.uses(Effect::batch)) {  // its plugin also accumulates in the plain form
      if (on_each % train.accumulation != 0) return false;
      train.micro_batch = on_each / train.accumulation;
    } else {
      train.micro_batch = std::gcd(on_each, train.micro_batch);
      train.accumulation = on_each / train.micro_batch;
    }
    train.world_size = world;
    return true;
  }

  /// " on 2 ranks" if the number differs from the variant's; otherwise "".
  std::string on_ranks(const RunSpec& run) const {
    const int64_t ranks = run.train.world_size;
    return ranks == setup_.train.world_size ? "" : " on " + counted(ranks, "rank");
  }

  /// The batch differs: at an equal global batch, losses must agree.
  bool at_equal_batch() {
    if (ancestors_.empty()) return false;
    const int64_t previous = ancestors_.front();
    if (variant_.spec.model_kind == kProgramKind) {  // it may not follow the spec's batch
      only_fall("its batch differs from the batch of " + quoted(previous));
      return true;
    }
    const Setup other = setup(previous);
    // The previous rung can be the reference only with the same number of ranks.
    const bool other_ranks = setup_.train.world_size != other.train.world_size;
    if (other_ranks && by_accumulation(previous, other)) return true;
    if (by_probe(previous, other) || by_accumulation(previous, other)) return true;
    only_fall(setup_.train.seq_len == other.train.seq_len
                  ? "its batch cannot be split like that of " + quoted(previous)
                  : "only the length of the sequences differs from " + quoted(previous));
    return true;
  }

  /// Runs a probe: the variant's split, with the batch of the previous rung.
  bool by_probe(int64_t previous, const Setup& other) {
    const TrainSpec &now = setup_.train, &then = other.train;
    const int64_t parts = now.accumulation * setup_.data_ranks();
    if (then.global_batch % parts != 0) return false;
    Setup probe = setup_;
    probe.train.micro_batch = then.global_batch / parts;
    probe.train.global_batch = then.global_batch;
    probe.train.seq_len = then.seq_len;
    const Difference d = difference(probe, other);
    if (!d.any) return false;
    RunSpec run = extra(Purpose::probe, variant_.spec);
    run.train.micro_batch = probe.train.micro_batch;
    run.train.global_batch = 0;
    run.train.seq_len = then.seq_len;
    compare(d, probe, other);
    check_.subject = run;
    check_.reference_variant = previous;
    const bool other_length = now.seq_len != then.seq_len;
    check_.explanation = std::string(other_length ? "other sequences" : "another batch") +
                         ": an additional run with " + counted(then.global_batch, "sequence") + " " +
                         (other_length ? "of " + counted(then.seq_len, "token") + " " : "") +
                         "per step is compared with " + quoted(previous);
    return true;
  }

  /// Only the micro-batch or the number of ranks grew: compares with the previous rung that accumulates up to
  /// the new batch.
  bool by_accumulation(int64_t previous, const Setup& other) {
    const TrainSpec &now = setup_.train, &then = other.train;
    const RunSpec& spec = variant(previous).spec;
    const bool grew = now.seq_len == then.seq_len && now.global_batch % then.global_batch == 0;
    const bool by_plugin =
        now.accumulation != variant_.spec.train.accumulation || then.accumulation != spec.train.accumulation;
    if (!grew || by_plugin) return false;
    Setup accumulated = other;
    accumulated.train.accumulation *= now.global_batch / then.global_batch;
    accumulated.train.global_batch = now.global_batch;
    RunSpec run = extra(Purpose::reference, spec);
    run.train.accumulation = accumulated.train.accumulation;
    run.train.global_batch = 0;
    compare(difference(setup_, accumulated), setup_, accumulated);
    check_.reference = run;
    check_.explanation = "another batch: every step is compared with " + quoted(previous) + on_ranks(run) +
                         " accumulating over " + std::to_string(accumulated.train.accumulation) +
                         " micro-batches";
    return true;
  }

  void only_fall(const std::string& why) {
    check_.must_fall = true;
    check_.explanation = why + ", so only a falling loss is checked";
  }

  /// A repeat of the reference. The variant's rounds are repeated as round 0, a separate reference as round
  /// 1.
  RunSpec repeated_reference() const {
    RunSpec run =
        check_.reference ? *check_.reference : variant(variant(check_.reference_variant).runs_of()).spec;
    run.purpose = Purpose::repeat;
    run.round = check_.reference ? 1 : 0;
    return run;
  }

  RunSpec extra(Purpose purpose, RunSpec run) const {
    run.experiment = variant_.spec.experiment;
    run.rung = variant_.name;
    run.variant = variant_.index;
    run.round = 0;
    run.purpose = purpose;
    run.train.steps = kProbeSteps;
    run.train.warmup = kProbeWarmup;
    return run;
  }

  const std::vector<Variant>& variants_;
  const Plans& plans_;
  const Variant& variant_;
  Setup setup_;
  std::vector<int64_t> ancestors_;  ///< variants below with a plan, nearest first
  GateCheck check_;
};
}  // namespace

GateCheck plan_check(const std::vector<Variant>& variants, const Plans& plans, int64_t variant) {
  return Planner(variants, plans, variant).plan();
}
}  // namespace optrush
