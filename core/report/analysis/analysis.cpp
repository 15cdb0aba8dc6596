#include "report/analysis/analysis.h"

#include <algorithm>
#include <functional>
#include <map>

#include "report/analysis/measured_row.h"
#include "report/analysis/problem.h"
#include "report/analysis/variant_runs.h"
#include "spec/read_fields.h"
#include "spec/spec_json.h"

namespace optrush {
namespace {
/// One pass over the variants in their order, as a row is compared with rows before it.
class Analyzer {
 public:
  /// The runs come apart, as who needs the rest no more gives them away.
  Analyzer(const Stored& stored, std::vector<StoredRun> runs)
      : stored_(stored),
        out_{.runs = std::move(runs)},
        runs_(stored.variants, out_.runs),
        usable_(stored.plans) {
    out_.experiment = stored.experiment;
    out_.context = stored.context;
    out_.variants = stored.variants;
    out_.plans = stored.plans;
    out_.tried = stored.tried;
    out_.probes = stored.noise;
  }

  Analysis analyze() {
    for (const Variant& variant : stored_.variants) {
      out_.rows.push_back(measured_row(stored_, variant, runs_));
      Row& row = out_.rows.back();
      out_.missing_runs += row.missing_rounds;
      if (row.ok()) check(row);
      // A row that ended badly or broke the gate is nobody's reference.
      if (!row.ok())
        usable_[index(row)].reset();
      else
        compare(row);
    }
    find_drift();
    out_.noise = noise_of(stored_.noise);
    out_.gpu = gpu_steps_of(out_.runs);
    meet_programs();
    out_.ablation = rank_ablation(stored_.experiment, out_.rows);
    out_.scaling = find_scaling(out_);
    out_.findings = findings(out_);
    out_.headline = headline(out_);
    return std::move(out_);
  }

 private:
  static size_t index(const Row& row) { return static_cast<size_t>(row.variant); }
  const Variant& variant_of(const Row& row) const { return stored_.variants[index(row)]; }

  static std::vector<Curve> curves(const std::vector<const StoredRun*>& runs) {
    std::vector<Curve> curves;
    for (const StoredRun* run : runs) curves.push_back(run->result.curve());
    // The first one is asked for a falling loss, and the others are compared with it: a round that was cut
    // shows less.
    std::ranges::stable_sort(curves, std::greater(), [](const Curve& curve) { return curve.losses.size(); });
    return curves;
  }

  /// The extra run that the gate asks for, where it was made; `note` says how it ended else.
  std::optional<Curve> extra_run(int64_t variant, const RunSpec& spec, Row& row) const {
    for (const StoredRun* run : runs_.of(variant, spec.purpose)) {
      if (!same_work(run->spec, spec)) continue;
      if (runs_.sound(*run)) return run->result.curve();
      row.notes.push_back("its " + std::string(to_string(spec.purpose)) +
                          " run failed: " + runs_.why_not(*run));
    }
    return std::nullopt;
  }

  void check(Row& row) {
    const auto leave = [&](const char* why) {
      row.checked = false;
      row.notes.emplace_back(why);
    };
    if (row.same_as >= 0) return take_check(row, *out_.row(row.same_as));
    if (!usable_[index(row)]) return leave("not checked: the rung has no plan");
    if (row.external && row.steps.empty()) return leave("not checked: the program reports no losses");
    const GateCheck gate = plan_check(stored_.variants, usable_, row.variant);
    GateEvidence evidence{curves(runs_.sound(row.variant)), std::nullopt, {}};
    if (gate.subject) evidence.subject = extra_run(row.variant, *gate.subject, row);
    if (gate.reference) {
      if (const auto curve = extra_run(row.variant, *gate.reference, row)) evidence.reference = {*curve};
    } else if (gate.reference_variant >= 0) {
      evidence.reference = curves(runs_.sound(gate.reference_variant));
    }
    if (gate.repeat) evidence.repeat = extra_run(gate.repeat->variant, *gate.repeat, row);
    if (row.variant != 0 && same_batches(row.variant))
      if (auto base = curves(runs_.sound(0)); !base.empty()) evidence.base = std::move(base.front());
    row.gate = gate.explanation;
    row.verdict = judge(gate, evidence);
    if (row.verdict.undecided) leave("not checked bit for bit: its reference ran only once");
    if (!row.verdict.passed) row.end_badly(Status::broken, row.verdict.message, ErrorCode::wrong_result);
    if (!row.verdict.compared) stand_on_broken(row);
    if (row.status == Status::broken) culprits_.try_emplace(row.variant, variant_of(row).added);
    if (row.verdict.compared) {
      const auto& subject = (gate.subject ? *evidence.subject : evidence.own.front()).losses;
      const auto& reference = evidence.reference.front().losses;
      const size_t last = std::min(subject.size(), reference.size()) - 1;
      row.loss_change = subject[last] - reference[last];
      row.loss_change_at = static_cast<int64_t>(last) + 1;
      for (size_t i = 0; i <= last; ++i)
        row.losses_apart.push_back(
            subject[i] == reference[i] ? 0 : std::abs(subject[i] - reference[i]) / std::abs(reference[i]));
      row.loss_against = gate.reference ? "its reference run"
                                        : stored_.variants[static_cast<size_t>(gate.reference_variant)].name;
      if (row.external && !row.verdict.norm)
        row.gate += "; the program reports no gradient norms, so only losses are compared";
    } else if (variant_of(row).previous >= 0) {
      row.checked = false;
      if (gate.compares()) row.notes.push_back(row.verdict.message);
    }
  }

  /// Whether a variant learns from the very batches of the base.
  bool same_batches(int64_t variant) const {
    if (!same_task(variant, 0)) return false;
    const auto &one = usable_[static_cast<size_t>(variant)], &base = usable_.front();
    if (!one || !base) return false;
    return stored_.variants[static_cast<size_t>(variant)].spec.train.seed ==
               stored_.variants.front().spec.train.seed &&
           one->problem.global_batch == base->problem.global_batch;
  }

  /// Runs are checked once, at the place where they were made.
  void take_check(Row& row, const Row& owner) {
    row.checked = owner.checked;
    row.gate = owner.gate;
    row.verdict = owner.verdict;
    row.loss_change = owner.loss_change;
    row.loss_change_at = owner.loss_change_at;
    row.loss_against = owner.loss_against;
    row.losses_apart = owner.losses_apart;
    if (!owner.ok()) row.end_badly(owner.status, owner.reason, owner.code);
    if (const auto culprits = culprits_.find(owner.variant); culprits != culprits_.end())
      culprits_.emplace(row.variant, culprits->second);
  }

  /// Another batch must not hide what is known to be wrong: a rung that still stacks what broke the one below
  /// is broken, until a run shows that it is right again.
  void stand_on_broken(Row& row) {
    const auto below = culprits_.find(variant_of(row).previous);
    if (below == culprits_.end()) return;
    const auto& stacked = variant_of(row).spec.plugins;
    const bool gone = std::ranges::any_of(below->second, [&](const PluginUse& culprit) {
      return std::ranges::none_of(stacked, [&](const PluginUse& use) {
        return use.name == culprit.name && use.options == culprit.options;
      });
    });
    if (gone) return;
    row.end_badly(Status::broken, "it builds on '" + out_.row(below->first)->name + "', which is broken",
                  ErrorCode::wrong_result);
    culprits_.emplace(row.variant, below->second);
  }

  bool same_task(int64_t a, int64_t b) const {
    return optrush::same_task(stored_.variants[static_cast<size_t>(a)].spec,
                              stored_.variants[static_cast<size_t>(b)].spec);
  }

  Comparison against(const Row& row, int64_t other) const {
    Comparison c;
    const Row* reference = out_.row(other);
    if (!reference) return c;
    c.variant = other;
    c.name = reference->name;
    c.differs = difference_of_problems(stored_, row.variant, stored_, other);
    if (row.runs_of() == reference->runs_of())
      c.speed = Ratio{.rounds = row.samples.size(), .same_run = true};
    else
      c.speed = paired_speed(row, *reference, standard_of(stored_.experiment));
    if (same_task(row.variant, other))
      c.worse = trains_worse({row.steps, row.validation}, {reference->steps, reference->validation});
    if (row.memory.allocated && reference->memory.allocated.value_or(0) > 0)
      c.memory = *row.memory.allocated / *reference->memory.allocated;
    return c;
  }

  /// The rungs that a row stands on above another one, in their order.
  std::vector<std::string> between(const Row& row, int64_t other) const {
    std::vector<std::string> names;
    for (const Row* below = out_.row(variant_of(row).previous); below && below->variant != other;
         below = out_.row(variant_of(*below).previous))
      names.insert(names.begin(), below->name);
    return names;
  }

  /// Previous: the nearest row below that is ok, of the same problem where there is one. Base: variant 0,
  /// else the first row of the stack that is ok.
  void compare(Row& row) {
    std::vector<int64_t> below;  // nearest first
    for (int64_t i = variant_of(row).previous; i >= 0; i = stored_.variants[static_cast<size_t>(i)].previous)
      if (out_.row(i)->ok()) below.push_back(i);
    if (below.empty()) return;
    const auto same = std::ranges::find_if(
        below, [&](int64_t i) { return difference_of_problems(stored_, row.variant, stored_, i).empty(); });
    row.previous = against(row, same == below.end() ? below.front() : *same);
    row.previous.between = between(row, row.previous.variant);
    row.base = against(row, below.back());
    if (below.back() != 0) row.notes.push_back("the base failed, so '" + row.base.name + "' replaces it");
  }

  void meet_programs() {
    const auto slower = [](const Row* a, const Row* b) {
      return *a->tokens_per_second < *b->tokens_per_second;
    };
    std::vector<const Row*> own, others;
    for (const Row& row : out_.rows)
      // A rung that trains worse than the base must not win.
      if (row.ok() && row.tokens_per_second && (row.external || !row.base.worse))
        (row.external ? others : own).push_back(&row);
    std::ranges::stable_sort(others, [&](const Row* a, const Row* b) { return slower(b, a); });
    for (const Row* other : others) {
      std::vector<const Row*> same = own;
      std::erase_if(same, [&](const Row* row) {
        return !difference_of_problems(stored_, row->variant, stored_, other->variant).empty();
      });
      if (same.empty()) continue;
      const auto alike = [&](const Row* row) { return row->devices == other->devices; };
      if (std::ranges::any_of(same, alike)) std::erase_if(same, [&](const Row* row) { return !alike(row); });
      const Row& fastest = **std::ranges::max_element(same, slower);
      out_.programs.push_back({other->variant, fastest.variant, against(fastest, other->variant)});
    }
  }

  void find_drift() {
    const auto runs = runs_.of(0, Purpose::drift);
    if (runs.empty() || !runs_.sound(*runs.back()) || !out_.rows.front().ok()) return;
    const auto last = runs.back()->result.tokens_per_second;
    if (last && out_.rows.front().tokens_per_second)
      out_.drift = Drift{*out_.rows.front().tokens_per_second, *last};
  }

  const Stored& stored_;
  Analysis out_;
  const VariantRuns runs_;
  Plans usable_;  ///< none for what may not be a reference
  std::map<int64_t, std::vector<PluginUse>>
      culprits_;  ///< broken variant -> plugins that broke it or a rung below
};
}  // namespace

std::optional<double> mfu_denominator(const Json& context) {
  const auto peak = context.find("peak");
  if (peak == context.end()) return std::nullopt;
  const auto flops = number(*peak, "mfu_denominator");
  return flops && *flops > 0 ? flops : std::nullopt;
}

std::optional<double> peak_of_dtype(const Json& context, const std::string& dtype) {
  const Json::json_pointer pointer("/peak/dtype_flops/" + dtype);
  if (!context.contains(pointer) || !context.at(pointer).is_number()) return std::nullopt;
  return context.at(pointer).get<double>();
}

Standard standard_of(const Experiment& experiment) {
  // Found by simulation (tests/unit/next_round_test.cpp).
  return experiment.until ? Standard{.error = 0.02} : Standard{};
}

bool Row::trains_on_fewer() const {
  return std::ranges::any_of(steps, [](const StepResult& step) {
    return step.trained < step.tokens || step.tokens < step.positions;
  });
}

bool Row::was_interleaved() const {
  return std::ranges::any_of(turns, [](const InterleavedSamples& round) { return !round.group.empty(); });
}

void Row::end_badly(Status how, std::string why, std::optional<ErrorCode> kind) {
  if (!ok()) return;
  status = how;
  code = kind;
  reason = std::move(why);
}

bool Analysis::any_failed() const {
  return std::ranges::any_of(rows, [](const Row& row) { return !row.ok() && row.status != Status::skipped; });
}

Analysis analyze(const Stored& stored) { return Analyzer(stored, stored.runs).analyze(); }
Analysis analyze(Stored&& stored) {
  std::vector<StoredRun> runs = std::move(stored.runs);
  return Analyzer(stored, std::move(runs)).analyze();
}
}  // namespace optrush
