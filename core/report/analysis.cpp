#include "report/analysis.h"

#include <algorithm>
#include <map>

#include "base/spec_json.h"
#include "base/suggest.h"
#include "optrush/error.h"
#include "report/format.h"
#include "report/problem.h"
#include "report/read_fields.h"
#include "report/step_cost.h"

namespace optrush {
namespace {
/// One pass over the variants in their order, as a row is compared with rows before it.
class Analyzer {
 public:
  explicit Analyzer(const Stored& stored) : stored_(stored), usable_(stored.plans) {
    out_.experiment = stored.experiment;
    out_.context = stored.context;
    out_.variants = stored.variants;
    out_.runs = stored.runs;
    out_.plans = stored.plans;
    out_.tried = stored.tried;
  }

  Analysis analyze() {
    for (const Variant& variant : stored_.variants) {
      out_.rows.push_back(measured(variant));
      Row& row = out_.rows.back();
      rate(row);
      if (row.ok()) check(row);
      // A row that ended badly or broke the gate is nobody's reference.
      if (!row.ok())
        usable_[index(row)] = nullptr;
      else
        compare(row);
    }
    find_drift();
    out_.noise = noise_of(stored_.noise);
    meet_programs();
    out_.ablation = rank_ablation(stored_.experiment, out_.rows);
    out_.scaling = find_scaling(out_);
    out_.finding = finding(out_);
    return std::move(out_);
  }

 private:
  static size_t index(const Row& row) { return static_cast<size_t>(row.variant); }
  const Variant& variant_of(const Row& row) const { return stored_.variants[index(row)]; }

  /// Its own, or those of the variant whose stack it has.
  std::vector<const StoredRun*> runs_of(int64_t variant, const std::string& purpose) const {
    const int64_t owner = stored_.variants[static_cast<size_t>(variant)].runs_of();
    std::vector<const StoredRun*> runs;
    for (const auto& run : stored_.runs)
      if (run.spec.variant == owner && run.spec.purpose == purpose) runs.push_back(&run);
    std::ranges::stable_sort(runs, {}, [](const StoredRun* run) { return run->spec.round; });
    return runs;
  }

  /// Why a run of the status ok can't count.
  std::string flaw_of(const StoredRun& run) const {
    // What the gate compares an external rung with is made by the worker.
    const bool by_worker = !stored_.variants[static_cast<size_t>(run.spec.variant)].external ||
                           run.spec.purpose == "reference" || run.spec.purpose == "repeat";
    return unhealthy(run.result, by_worker ? Trainer::worker : Trainer::other_program);
  }

  bool sound(const StoredRun* run) const { return run->result.status == Status::ok && flaw_of(*run).empty(); }

  /// The runs of a variant that count.
  std::vector<const StoredRun*> sound_runs(int64_t variant) const {
    auto runs = runs_of(variant, "measure");
    std::erase_if(runs, [&](const StoredRun* run) { return !sound(run); });
    return runs;
  }

  static void end_badly(Row& row, Status status, std::string reason) {
    if (!row.ok()) return;
    row.status = status;
    row.reason = std::move(reason);
  }

  void take_status(Row& row, const std::vector<const StoredRun*>& runs) {
    const Experiment& experiment = stored_.experiment;
    // Of an open number one round was promised.
    const auto planned = static_cast<size_t>(experiment.until ? 1 : experiment.rounds);
    const bool some_sound = std::ranges::any_of(runs, [&](const StoredRun* run) { return sound(run); });
    for (const StoredRun* run : runs) {
      const RunResult& result = run->result;
      std::string reason = result.status == Status::ok ? flaw_of(*run) : result.reason;
      if (result.requested_bytes) reason += " (asked for " + bytes(*result.requested_bytes) + ")";
      if (some_sound) reason = "round " + std::to_string(run->spec.round + 1) + ": " + reason;
      if (!sound(run)) end_badly(row, result.status == Status::ok ? Status::failed : result.status, reason);
    }
    row.started = !runs.empty();
    if (!row.started) end_badly(row, Status::skipped, "not run");
    if (row.started && runs.size() < planned && row.ok())
      row.notes.push_back(std::to_string(runs.size()) + " of " + std::to_string(planned) + " rounds ran");
    // What has failed is not run again, and what was never planned was not asked for.
    const bool awaited =
        row.same_as < 0 && (row.ok() || (!row.started && !stored_.plans[index(row)].is_null()));
    if (awaited) out_.missing_runs += planned - std::min(planned, runs.size());
  }

  Row measured(const Variant& variant) {
    Row row;
    row.variant = variant.index;
    row.name = variant.name;
    row.group = variant.group;
    row.same_as = variant.same_as;
    if (row.same_as >= 0)
      row.notes.push_back("the same run as '" + stored_.variants[static_cast<size_t>(row.same_as)].name +
                          "'");
    row.external = variant.external.has_value();
    row.published = variant.expect;
    if (!variant.passed_over.empty())
      row.notes.push_back("stands on '" + stored_.variants[static_cast<size_t>(variant.previous)].name +
                          "': " + join(variant.passed_over) + " failed");
    take_status(row, runs_of(variant.index, "measure"));
    const auto runs = sound_runs(variant.index);
    const auto median_of = [&](auto get) {
      std::vector<double> values;
      for (const StoredRun* run : runs)
        if (const std::optional<double> value = get(run->result)) values.push_back(*value);
      return median(values);
    };
    for (const StoredRun* run : runs) {
      if (const auto speed = run->result.tokens_per_second) {
        row.rounds.push_back(run->spec.round);
        row.samples.push_back(*speed);
        row.turns.push_back(in_turns(run->result));
      }
      for (const auto& note : run->result.notes)
        if (std::ranges::find(row.notes, note) == row.notes.end()) row.notes.push_back(note);
    }
    if (!runs.empty()) take_first(row, runs.front()->result);
    take_counters(row, runs);
    for (const StoredRun* run : runs)
      if (row.traces.empty()) row.traces = run->traces;
    if (const double target = stored_.experiment.target_loss; target > 0) {
      std::vector<const RunResult*> results;
      for (const StoredRun* run : runs) results.push_back(&run->result);
      row.time_to_loss = time_to_loss(results, target);
    }
    const CostLine planned = planned_cost(row.name, stored_.plans[index(row)]);
    row.predicted_peak = planned.peak_bytes;
    if (!row.cost) row.cost = planned.cost;
    row.tokens_per_second = median(row.samples);
    row.step_seconds = median_of([](const RunResult& r) { return r.step_seconds; });
    // The longest: whoever comes later reads what the first round compiled from a cache.
    for (const StoredRun* run : runs)
      row.compile_seconds = std::max(row.compile_seconds.value_or(0), run->result.compile_seconds);
    row.setup_seconds = median_of([](const RunResult& r) { return std::optional(r.setup_seconds); });
    for (auto& [name, seconds] : row.phases)
      seconds = median_of([&wanted = name](const RunResult& r) -> std::optional<double> {
        const auto it = std::ranges::find(r.phases, wanted, [](const auto& phase) { return phase.first; });
        return it == r.phases.end() ? std::nullopt : it->second;
      });
    row.joules_per_token = median_of([](const RunResult& r) -> std::optional<double> {
      if (!r.energy_joules || r.timed_tokens() == 0) return std::nullopt;
      return *r.energy_joules / static_cast<double>(r.timed_tokens());
    });
    for (const StoredRun* run : runs) {
      const auto keep_highest = [](std::optional<double>& peak, const std::optional<double>& value) {
        if (value) peak = std::max(peak.value_or(0), *value);
      };
      keep_highest(row.memory.allocated, run->result.memory.allocated);
      keep_highest(row.memory.reserved, run->result.memory.reserved);
      keep_highest(row.memory.process, run->result.memory.process);
    }
    row.devices = out_.variants[index(row)].spec.train.world_size;
    take_ranks(row, runs);
    return row;
  }

  /// A rank's peak of memory is its largest, a row's that of its largest rank.
  static void take_ranks(Row& row, const std::vector<const StoredRun*>& runs) {
    if (runs.empty()) return;
    const RunResult& first = runs.front()->result;
    row.mesh = first.mesh;
    row.collectives = first.collectives;
    row.ranks = first.ranks;
    std::vector<double> exposed;
    for (RankResult& rank : row.ranks) {
      take_rounds(rank, runs);
      if (rank.peak_allocated)
        row.memory.allocated = std::max(row.memory.allocated.value_or(0), *rank.peak_allocated);
      if (rank.sent_bytes) row.sent_bytes = std::max(row.sent_bytes.value_or(0), *rank.sent_bytes);
      if (rank.exposed_seconds) exposed.push_back(*rank.exposed_seconds);
    }
    row.exposed_seconds = median(exposed);
  }

  static void take_rounds(RankResult& rank, const std::vector<const StoredRun*>& runs) {
    std::vector<const RankResult*> rounds;
    for (const StoredRun* run : runs)
      for (const RankResult& other : run->result.ranks)
        if (other.rank == rank.rank) rounds.push_back(&other);
    const auto values_of = [&](std::optional<double> RankResult::*member) {
      std::vector<double> values;
      for (const RankResult* round : rounds)
        if (const auto& value = round->*member) values.push_back(*value);
      return values;
    };
    for (const auto member :
         {&RankResult::step_seconds, &RankResult::busy_seconds, &RankResult::exposed_seconds})
      rank.*member = median(values_of(member));
    if (const auto peaks = values_of(&RankResult::peak_allocated); !peaks.empty())
      rank.peak_allocated = std::ranges::max(peaks);
  }

  static void take_counters(Row& row, const std::vector<const StoredRun*>& runs) {
    if (runs.empty()) return;
    row.counters = runs.front()->result.counters;
    for (CounterResult& counter : row.counters) {
      std::vector<double> values;
      for (const StoredRun* run : runs)
        for (const CounterResult& other : run->result.counters)
          if (other.same_as(counter)) values.push_back(other.value);
      counter.value = *median(values);
    }
  }

  static void take_first(Row& row, const RunResult& first) {
    row.steps = first.steps;
    row.validation = first.validation;
    row.phases = first.phases;
    row.memory.parts = first.memory.parts;
    row.cost = step_cost_from(first.costs);
    if (!first.steps.empty()) row.final_loss = first.steps.back().loss;
    row.published_here = row.published && row.published->comparable_with(first.device);
  }

  /// What follows from the measurements of one row alone.
  void rate(Row& row) {
    if (row.predicted_peak && row.memory.allocated.value_or(0) > 0)
      row.prediction_error = *row.predicted_peak / *row.memory.allocated - 1;
    if (!row.tokens_per_second) return;
    row.work = work_of(stored_.plans[index(row)]);
    row.devices = devices_of(stored_.plans[index(row)]);
    row.tokens_per_second_per_device = *row.tokens_per_second / static_cast<double>(row.devices);
    if (const double price = stored_.experiment.price_per_hour; price > 0)
      row.cost_per_million_tokens = price / 3600 / *row.tokens_per_second * 1e6;
    RunResult result = sound_runs(row.variant).front()->result;
    if (row.external) take_planned_flops(result, stored_.plans[index(row)]);
    if (result.mfu_flops) row.model_flops_per_second = *result.mfu_flops * *row.tokens_per_second;
    const auto peak = mfu_denominator(stored_.context);
    // What a plugin of reduced precision multiplies in is not the type of the parameters.
    if (!reduces_precision(stored_.plans[index(row)])) row.dtype = variant_of(row).spec.train.dtype;
    if (const auto own = peak_of_dtype(stored_.context, row.dtype);
        own && own != peak && row.model_flops_per_second)
      row.mfu_of_dtype = *row.model_flops_per_second / static_cast<double>(row.devices) / *own;
    if (!peak) return;
    const auto utilization = [&](const std::optional<double>& flops) {
      return flops ? std::optional(*flops * *row.tokens_per_second_per_device / *peak) : std::nullopt;
    };
    row.mfu = utilization(result.mfu_flops);
    row.mfu_causal = utilization(result.mfu_causal_flops);
    row.hfu = utilization(result.hfu_flops);
    // Not `mfu`: its formula counts the half that a causal kernel leaves out.
    for (const auto& [name, value] : {std::pair("MFU (causal)", row.mfu_causal), std::pair("HFU", row.hfu)})
      if (value.value_or(0) > 1)
        end_badly(row, Status::failed,
                  std::string("an ") + name + " of " + percent(*value) +
                      " is above 100 %: the peak or the count of operations is wrong");
  }

  static bool reduces_precision(const Json& plan) {
    const Json plugins = plan.is_null() ? Json::array() : plan.at("plugins");
    return std::ranges::any_of(
        plugins, [](const Json& plugin) { return plugin.at("effect") == to_string(Effect::precision); });
  }

  static std::optional<Work> work_of(const Json& plan) {
    const auto work = plan.find("work");
    if (work == plan.end() || !work->is_object()) return std::nullopt;
    const auto part = [&](const char* pass, const char* what) {
      return work->at(pass).at(what).get<double>();
    };
    return Work{part("forward", "bytes"), part("forward", "flops"), part("backward", "bytes"),
                part("backward", "flops")};
  }

  /// The formulas depend on the model alone, so another program's MFU is that of the plan.
  static void take_planned_flops(RunResult& result, const Json& plan) {
    const auto flops = plan.find("flops_per_token");
    if (flops == plan.end()) return;
    if (!result.mfu_flops) result.mfu_flops = number(*flops, "mfu");
    if (!result.mfu_causal_flops) result.mfu_causal_flops = number(*flops, "mfu_causal");
  }

  static std::vector<Curve> curves(const std::vector<const StoredRun*>& runs) {
    std::vector<Curve> curves;
    for (const StoredRun* run : runs) curves.push_back(run->result.curve());
    return curves;
  }

  /// The extra run that the gate asks for, where it was made; `note` says how it ended else.
  std::optional<Curve> extra_run(int64_t variant, const RunSpec& spec, Row& row) const {
    for (const StoredRun* run : runs_of(variant, spec.purpose)) {
      if (!same_work(run->spec, spec)) continue;
      if (sound(run)) return run->result.curve();
      const std::string bad = run->result.status == Status::ok ? flaw_of(*run) : run->result.reason;
      row.notes.push_back("its " + spec.purpose + " run: " + bad);
    }
    return std::nullopt;
  }

  void check(Row& row) {
    const auto leave = [&](const char* why) {
      row.checked = false;
      row.notes.emplace_back(why);
    };
    if (row.same_as >= 0) return take_check(row, *out_.row(row.same_as));
    if (usable_[index(row)].is_null()) return leave("not checked: there is no plan");
    if (row.external && row.steps.empty()) return leave("not checked: its program reports no losses");
    const GateCheck gate = plan_check(stored_.variants, usable_, row.variant);
    GateEvidence evidence{curves(sound_runs(row.variant)), std::nullopt, {}};
    if (gate.subject) evidence.subject = extra_run(row.variant, *gate.subject, row);
    if (gate.reference) {
      if (const auto curve = extra_run(row.variant, *gate.reference, row)) evidence.reference = {*curve};
    } else if (gate.reference_variant >= 0) {
      evidence.reference = curves(sound_runs(gate.reference_variant));
    }
    if (gate.repeat) evidence.repeat = extra_run(gate.repeat->variant, *gate.repeat, row);
    if (row.variant != 0 && same_batches(row.variant))
      if (auto base = curves(sound_runs(0)); !base.empty()) evidence.base = std::move(base.front());
    row.gate = gate.explanation;
    row.verdict = judge(gate, evidence);
    if (row.verdict.undecided) leave("not checked to the bit: its reference ran once");
    if (!row.verdict.passed) end_badly(row, Status::broken, row.verdict.message);
    if (!row.verdict.compared) stand_on_broken(row);
    if (row.status == Status::broken) culprits_.try_emplace(row.variant, variant_of(row).added);
    if (row.verdict.compared) {
      const auto& subject = (gate.subject ? *evidence.subject : evidence.own.front()).losses;
      const auto& reference = evidence.reference.front().losses;
      const size_t last = std::min(subject.size(), reference.size()) - 1;
      row.loss_change = subject[last] - reference[last];
      for (size_t i = 0; i <= last; ++i)
        row.losses_apart.push_back(
            subject[i] == reference[i] ? 0 : std::abs(subject[i] - reference[i]) / std::abs(reference[i]));
      row.loss_against = gate.reference ? "its reference run"
                                        : stored_.variants[static_cast<size_t>(gate.reference_variant)].name;
      if (row.external && !row.verdict.norm)
        row.gate += "; its program reports no gradient norms, so losses alone count";
    } else if (variant_of(row).previous >= 0) {
      row.checked = false;
      if (gate.compares()) row.notes.push_back(row.verdict.message);
    }
  }

  /// Whether a variant learns from the very batches of the base.
  bool same_batches(int64_t variant) const {
    if (!same_task(variant, 0)) return false;
    const Json &one = usable_[static_cast<size_t>(variant)], &base = usable_.front();
    if (one.is_null() || base.is_null()) return false;
    return stored_.variants[static_cast<size_t>(variant)].spec.train.seed ==
               stored_.variants.front().spec.train.seed &&
           one.at("problem").at("global_batch") == base.at("problem").at("global_batch");
  }

  /// Runs are checked once, at the place where they were made.
  void take_check(Row& row, const Row& owner) {
    row.checked = owner.checked;
    row.gate = owner.gate;
    row.verdict = owner.verdict;
    row.loss_change = owner.loss_change;
    row.loss_against = owner.loss_against;
    row.losses_apart = owner.losses_apart;
    if (!owner.ok()) end_badly(row, owner.status, owner.reason);
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
    end_badly(row, Status::broken, "it stands on '" + out_.row(below->first)->name + "', which is broken");
    culprits_.emplace(row.variant, below->second);
  }

  /// Losses of another model, of other data or of other lengths say nothing about each other.
  bool same_task(int64_t a, int64_t b) const {
    const Variant &one = stored_.variants[static_cast<size_t>(a)],
                  &other = stored_.variants[static_cast<size_t>(b)];
    return one.spec.model_kind == other.spec.model_kind && one.spec.model == other.spec.model &&
           to_json(one.spec.data) == to_json(other.spec.data) &&
           one.spec.train.seq_len == other.spec.train.seq_len;
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
    if (same_task(row.variant, other)) c.worse = trains_worse(row.steps, reference->steps);
    if (row.memory.allocated && reference->memory.allocated.value_or(0) > 0)
      c.memory = *row.memory.allocated / *reference->memory.allocated;
    return c;
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
    row.base = against(row, below.back());
    if (below.back() != 0)
      row.notes.push_back("the base is not ok: '" + row.base.name + "' stands in for it");
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
      const Row& fastest = **std::ranges::max_element(same, slower);
      out_.programs.push_back({other->variant, fastest.variant, against(fastest, other->variant)});
    }
  }

  void find_drift() {
    const auto runs = runs_of(0, "drift");
    if (runs.empty() || !sound(runs.back()) || !out_.rows.front().ok()) return;
    const auto last = runs.back()->result.tokens_per_second;
    if (last && out_.rows.front().tokens_per_second)
      out_.drift = Drift{*out_.rows.front().tokens_per_second, *last};
  }

  const Stored& stored_;
  std::vector<Json> usable_;  ///< plans; null for what may not be a reference
  std::map<int64_t, std::vector<PluginUse>>
      culprits_;  ///< broken variant -> plugins that broke it or a rung below
  Analysis out_;
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

bool Analysis::any_failed() const {
  return std::ranges::any_of(rows, [](const Row& row) { return !row.ok() && row.status != Status::skipped; });
}

Analysis analyze(const Stored& stored) { return Analyzer(stored).analyze(); }
}  // namespace optrush
