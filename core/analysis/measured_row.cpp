#include "analysis/checked_rows.h"

#include <algorithm>
#include <functional>
#include <set>

#include "analysis/numbers/format.h"
#include "analysis/quantities.h"
#include "base/text.h"
#include "spec/read_fields.h"

namespace optrush {
namespace {
using RunsOfRow = std::vector<const StoredRun*>;

/// The numbers of the runs that have them.
template <class Get>
std::vector<double> values_of(const RunsOfRow& runs, Get get) {
  std::vector<double> values;
  for (const StoredRun* run : runs)
    if (const std::optional<double> value = std::invoke(get, run->result)) values.push_back(*value);
  return values;
}

template <class Get>
std::optional<double> median_over(const RunsOfRow& runs, Get get) {
  return median(values_of(runs, get));
}

Row unmeasured(const Stored& stored, const Variant& variant) {
  const auto name_of = [&](int64_t other) { return "'" + stored.variant(other).name + "'"; };
  Row row;
  row.variant = variant.index;
  row.name = variant.name;
  row.group = variant.group;
  row.same_as = variant.same_as;
  if (row.same_as >= 0) row.notes.push_back("the same run as " + name_of(row.same_as));
  row.external = variant.external.has_value();
  row.published = variant.expect;
  row.devices = variant.spec.train.world_size;
  if (!variant.passed_over.empty())
    row.notes.push_back("it builds on " + name_of(variant.previous) + ", because " +
                        listed_names(variant.passed_over) + " could not be stacked");
  return row;
}

void set_status(Row& row, const Stored& stored, const VariantRuns& all) {
  const RunsOfRow runs = all.of(row.variant, Purpose::measure);
  // With an open number of rounds, one round is planned.
  const auto planned = static_cast<size_t>(stored.experiment.until ? 1 : stored.experiment.rounds);
  const bool some_sound = std::ranges::any_of(runs, [&](const StoredRun* run) { return all.sound(*run); });
  for (const StoredRun* run : runs) {
    const RunResult& result = run->result;
    std::string reason = all.why_not(*run);
    if (result.requested_bytes) reason += " (asked for " + bytes(*result.requested_bytes) + ")";
    if (some_sound) reason = "round " + std::to_string(run->spec.round + 1) + ": " + reason;
    if (all.sound(*run)) continue;
    if (result.ok())
      row.end_badly(Status::failed, reason, ErrorCode::diverged);
    else
      row.end_badly(result.status, reason, result.code);
  }
  row.started = !runs.empty();
  if (!row.started) row.end_badly(Status::skipped, "not run");
  // An experiment that was interrupted before planning has no plans.
  const bool planned_any = std::ranges::any_of(stored.plans, &std::optional<Plan>::has_value);
  row.asked = row.started || row.same_as >= 0 || stored.plan(row.variant) || !planned_any;
  if (row.started && runs.size() < planned && row.ok())
    row.notes.push_back(std::to_string(runs.size()) + " of " + counted(planned, "round") + " ran");
  // Failed runs are not repeated, and variants without a plan were not requested.
  const bool awaited = row.same_as < 0 && (row.ok() || (!row.started && stored.plan(row.variant)));
  if (awaited) row.missing_rounds = planned - std::min(planned, runs.size());
}

/// Takes the numbers of the round that the report shows.
void set_shown(Row& row, const StoredRun& shown) {
  const RunResult& result = shown.result;
  row.shown_round = shown.spec.round;
  row.steps = result.steps;
  row.validation = result.validation;
  row.phases = result.phases;
  row.padding = result.padding();
  row.memory.parts = result.memory.parts;
  row.cost = step_cost_from(result.costs);
  if (result.has_losses()) row.final_loss = result.steps.back().loss;
  row.published_here = row.published && row.published->comparable_with(result.device);
}

void set_rounds(Row& row, const RunsOfRow& runs, double target_loss) {
  for (const StoredRun* run : runs) {
    if (run->result.has_losses()) row.ends.push_back(end_of(*run, target_loss));
    if (const auto speed = run->result.tokens_per_second) {
      row.rounds.push_back(run->spec.round);
      row.samples.push_back(*speed);
      row.turns.push_back(interleaved(run->result));
    }
    for (const auto& note : run->result.notes)
      if (std::ranges::find(row.notes, note) == row.notes.end()) row.notes.push_back(note);
    for (const auto& warning : run->result.warnings)
      if (std::ranges::find(row.warnings, warning) == row.warnings.end()) row.warnings.push_back(warning);
    if (row.traces.empty()) row.traces = run->traces;
    if (row.traced.empty()) row.traced = run->result.traced;
    if (!run->result.saved.empty()) {
      row.saved = run->result.saved;
      row.state = "runs/" + run->id + "/state";
    }
    if (!run->result.sample.empty()) row.sample = run->result.sample;
    if (run->result.best) {
      row.best = run->result.best;
      row.best_state = "runs/" + run->id + "/best";
    }
  }
}

void set_counters(Row& row, const RunsOfRow& runs) {
  row.counters = runs.front()->result.counters;
  for (CounterResult& counter : row.counters) {
    std::vector<double> values;
    for (const StoredRun* run : runs)
      for (const CounterResult& other : run->result.counters)
        if (other.same_as(counter)) values.push_back(other.value);
    counter.value = *median(values);
  }
}

void set_times(Row& row, const RunsOfRow& runs) {
  row.tokens_per_second = median(row.samples);
  row.trained_tokens_per_second = median_over(runs, &RunResult::trained_tokens_per_second);
  row.step_seconds = median_over(runs, &RunResult::step_seconds);
  for (auto& [name, seconds] : row.phases)
    seconds =
        median_over(runs, [&wanted = name](const RunResult& r) { return value_named(r.phases, wanted); });
}

/// Combines the numbers that quantities() declares for runs and not for rows.
void set_numbers(Row& row, const RunsOfRow& runs) {
  for (const Quantity& q : quantities()) {
    if (q.of_run == nullptr || q.value) continue;
    if (const auto values = values_of(runs, q.of_run); !values.empty())
      row.numbers[q.csv] = q.over == OverRuns::largest ? std::ranges::max(values) : *median(values);
  }
}

void keep_highest(std::optional<double>& peak, const std::optional<double>& value) {
  if (value) peak = std::max(peak.value_or(0), *value);
}

void set_memory(Row& row, const RunsOfRow& runs) {
  for (const StoredRun* run : runs) {
    keep_highest(row.memory.allocated, run->result.memory.allocated);
    keep_highest(row.memory.reserved, run->result.memory.reserved);
    keep_highest(row.memory.process, run->result.memory.process);
  }
}

void set_rounds_of_rank(RankResult& rank, const RunsOfRow& runs) {
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
  for (const auto member : {&RankResult::peak_allocated, &RankResult::peak_reserved, &RankResult::process})
    if (const auto peaks = values_of(member); !peaks.empty()) rank.*member = std::ranges::max(peaks);
}

/// Uses the largest memory of each rank over its rounds, and for the row the memory of the largest rank.
void set_ranks(Row& row, const RunsOfRow& runs) {
  const RunResult& first = runs.front()->result;
  row.mesh = first.mesh;
  row.collectives = first.collectives;
  row.ranks = first.ranks;
  std::vector<double> exposed;
  for (RankResult& rank : row.ranks) {
    set_rounds_of_rank(rank, runs);
    keep_highest(row.memory.allocated, rank.peak_allocated);
    keep_highest(row.memory.reserved, rank.peak_reserved);
    keep_highest(row.memory.process, rank.process);
    if (rank.sent_bytes) row.sent_bytes = std::max(row.sent_bytes.value_or(0), *rank.sent_bytes);
    if (rank.exposed_seconds) exposed.push_back(*rank.exposed_seconds);
  }
  row.exposed_seconds = median(exposed);
}

/// Takes predictions from the plan and keeps values that a run has counted. The plan of another program is
/// that of the rung below, so it predicts nothing for that program.
void set_plan(Row& row, const Stored& stored) {
  const std::optional<Plan>& plan = stored.plan(row.variant);
  if (row.external || !plan) return;
  row.planned_memory = plan->memory;
  if (plan->memory && plan->memory->bounded_by.empty()) row.predicted_peak = plan->memory->peak;
  if (plan->saving) row.predicted_state = plan->saving->bytes();
  if (!row.cost) row.cost = step_cost_from(plan->costs);
  // A compiler's or a graph's kernels are not operators, so a step's count lacks them.
  if (plan->memory && !plan->memory->bounded_by.empty()) row.cost.reset();
}

bool reduces_precision(const std::optional<Plan>& plan) { return plan && plan->uses(Effect::precision); }

/// FLOP/s by a formula: the median over the runs of FLOPs per token times tokens per second. With full
/// sequences, the formulas depend only on the model, so another program takes them from the plan. With
/// documents, the plan has none.
std::optional<double> flops_per_second(const Row& row, const RunsOfRow& runs,
                                       std::optional<double> RunResult::*of_a_token,
                                       std::optional<double> planned) {
  const auto of_plan = row.external ? planned : std::nullopt;
  return median_over(runs, [&](const RunResult& run) -> std::optional<double> {
    const auto& counted = run.*of_a_token ? run.*of_a_token : of_plan;
    if (counted.value_or(0) <= 0 || !run.tokens_per_second) return std::nullopt;
    return *counted * *run.tokens_per_second;
  });
}

/// Computes utilization from the measurements of the row.
void set_utilization(Row& row, const Stored& stored, const RunsOfRow& runs) {
  const std::optional<Plan>& plan = stored.plan(row.variant);
  const PlannedFlops flops = plan ? plan->flops_per_token.value_or(PlannedFlops()) : PlannedFlops();
  if (row.predicted_peak && row.memory.allocated.value_or(0) > 0)
    row.prediction_error = *row.predicted_peak / *row.memory.allocated - 1;
  if (!row.tokens_per_second) return;
  if (plan) row.work = plan->work;
  row.devices = plan ? plan->devices() : 1;
  row.hardware = hardware_used(stored.context, runs.front()->result, row.devices);
  row.model_flops_per_second = flops_per_second(row, runs, &RunResult::mfu_flops, flops.mfu);
  const auto peak = mfu_denominator(stored.context);
  // With a plugin of reduced precision, matrix products do not have the parameters' type. A program's type is
  // not known.
  if (const RunSpec& spec = stored.variant(row.variant).spec;
      !reduces_precision(plan) && spec.model_kind != kProgramKind)
    row.dtype = spec.train.dtype;
  if (const auto own = peak_of_dtype(stored.context, row.dtype);
      own && own != peak && row.model_flops_per_second)
    row.mfu_of_dtype = *row.model_flops_per_second / row.hardware / *own;
  if (const auto sustained = sustained_rate(stored.context);
      sustained && runs.front()->result.on_gpu && row.model_flops_per_second)
    row.mfu_sustained = *row.model_flops_per_second / row.hardware / *sustained;
  if (!peak) return;
  const auto utilization = [&](const std::optional<double>& rate) {
    return rate ? std::optional(*rate / row.hardware / *peak) : std::nullopt;
  };
  row.mfu = utilization(row.model_flops_per_second);
  row.mfu_causal = utilization(flops_per_second(row, runs, &RunResult::mfu_causal_flops, flops.mfu_causal));
  row.hfu = utilization(flops_per_second(row, runs, &RunResult::hfu_flops, {}));
  // Not `mfu`, whose formula also counts the half that a causal kernel skips.
  const double limit = reduces_precision(plan) ? 2 : 1;
  for (const auto& [name, value] : {std::pair("MFU (causal)", row.mfu_causal), std::pair("HFU", row.hfu)}) {
    if (value.value_or(0) <= limit) continue;
    if (const std::string doubt = doubt_of_peak(stored.context); !doubt.empty()) {
      row.mfu = row.mfu_causal = row.hfu = row.mfu_of_dtype = row.mfu_sustained = std::nullopt;
      row.warnings.push_back("its MFU is left out, as it is above " + percent(limit, 0) + ": " + doubt);
      return;
    }
    row.end_badly(Status::failed,
                  std::string("an ") + name + " of " + percent(*value) + " is above " + percent(limit, 0) +
                      ": the peak or the count of operations is wrong",
                  ErrorCode::internal);
  }
}
}  // namespace

std::optional<StepCost> step_cost_from(const Json& costs) {
  if (!costs.is_object()) return std::nullopt;
  const auto total = [&](const char* key) { return number_at(costs, std::string("/total/") + key); };
  // Kernels of plugins note the FLOPs of their attention.
  std::optional<double> attention = total("attention_flops");
  if (attention) *attention += total("noted_flops").value_or(0);
  return StepCost{.launches = total("launches"),
                  .host_waits = total("host_waits"),
                  .copies = total("copies"),
                  .copied_bytes = total("copied_bytes"),
                  .casts = total("casts"),
                  .cast_bytes = total("cast_bytes"),
                  .casts_of_a_weight = number_at(costs, "/weight_casts/most"),
                  .elementwise_bytes = total("elementwise_bytes"),
                  .matmul_flops = total("matmul_flops"),
                  .attention_flops = attention};
}

double hardware_used(const Json& context, const RunResult& result, int64_t ranks) {
  const auto all = static_cast<double>(ranks);
  const double measured = number(context, "threads").value_or(0), threads = result.threads.value_or(0);
  if (result.on_gpu || measured <= 0 || threads <= 0) return all;
  std::set<std::string> hosts;
  for (const RankResult& rank : result.ranks) hosts.insert(rank.host);
  // Threads that share a core count as one core.
  const double cores = number_at(context, "/cpu/cores").value_or(0);
  const double machines = std::max(1.0, static_cast<double>(hosts.size()));
  return std::min(all * threads, machines * std::max(cores, measured)) / measured;
}

Row measured_row(const Stored& stored, const Variant& variant, const VariantRuns& all) {
  Row row = unmeasured(stored, variant);
  set_status(row, stored, all);
  const RunsOfRow runs = all.sound(variant.index);
  if (!runs.empty()) {
    // Another round may be longer than a shortened one. Steps of rows are compared, so their seed is the
    // same.
    const RunsOfRow alike = all.of_first_seed(variant.index);
    const StoredRun& longest = **std::ranges::max_element(
        alike.empty() ? runs : alike, {}, [](const StoredRun* run) { return run->result.steps.size(); });
    set_shown(row, longest);
    set_rounds(row, runs, stored.experiment.target_loss);
    set_counters(row, runs);
    set_times(row, runs);
    set_numbers(row, runs);
    set_memory(row, runs);
    set_ranks(row, runs);
  }
  row.time_to_loss = time_to_loss(row.ends);
  set_plan(row, stored);
  set_utilization(row, stored, runs);
  return row;
}
}  // namespace optrush
