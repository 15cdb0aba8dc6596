#include "analysis/checked_rows.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/number_text.h"

namespace optrush {
namespace {
std::vector<Curve> curves(const std::vector<const StoredRun*>& runs) {
  std::vector<Curve> curves;
  for (const StoredRun* run : runs)
    if (run->result.has_losses()) curves.push_back(run->result.curve());
  // The first curve must have a falling loss, and the others are compared with it. A shortened round shows
  // less.
  std::ranges::stable_sort(curves, std::greater(), [](const Curve& curve) { return curve.losses.size(); });
  return curves;
}

double largest_last_loss(const std::vector<Curve>& runs) {
  return std::ranges::max(runs, {}, [](const Curve& run) { return run.losses.back(); }).losses.back();
}
}  // namespace

const Row& CheckedRows::update(const Variant& variant, const VariantRuns& runs) {
  const auto place = static_cast<size_t>(variant.index);
  // A row that failed or broke the gate is not a reference.
  if (place > 0 && !rows_[place - 1].ok()) usable_[place - 1].reset();
  rows_.resize(place);
  culprits_.erase(variant.index);
  Row row = measured_row(stored_, variant, runs);
  if (row.ok()) check(row, runs);
  rows_.push_back(std::move(row));
  return rows_.back();
}

/// The additional run of the gate, if it was made and counts; otherwise a note states why it does not.
std::optional<Curve> CheckedRows::extra_run(int64_t variant, const RunSpec& spec, const VariantRuns& runs,
                                            Row& row) const {
  for (const StoredRun* run : runs.of(variant, spec.purpose)) {
    if (!same_work(run->spec, spec)) continue;
    if (runs.sound(*run)) return run->result.curve();
    row.notes.push_back("its " + std::string(to_string(spec.purpose)) + " run failed: " + runs.why_not(*run));
  }
  return std::nullopt;
}

void CheckedRows::check(Row& row, const VariantRuns& runs) {
  const auto leave = [&](const char* why) {
    row.checked = false;
    row.notes.emplace_back(why);
  };
  if (row.same_as >= 0) return copy_check(row, rows_[static_cast<size_t>(row.same_as)]);
  if (!usable_[static_cast<size_t>(row.variant)]) return leave("not checked: the rung has no plan");
  if (row.external) check_tokens(row);
  if (!row.ok()) return;
  const auto has_loss = [](const StepResult& step) { return std::isfinite(step.loss); };
  if (row.external && std::ranges::none_of(row.steps, has_loss))
    return leave("not checked: the program reports no losses");
  const GateCheck gate = plan_check(stored_.variants, usable_, row.variant);
  GateEvidence evidence{curves(runs.of_first_seed(row.variant)), std::nullopt, {}};
  if (gate.subject) evidence.subject = extra_run(row.variant, *gate.subject, runs, row);
  if (gate.reference) {
    if (const auto curve = extra_run(row.variant, *gate.reference, runs, row)) evidence.reference = {*curve};
  } else if (gate.reference_variant >= 0) {
    evidence.reference = curves(runs.of_first_seed(gate.reference_variant));
  }
  if (gate.repeat) evidence.repeat = extra_run(gate.repeat->variant, *gate.repeat, runs, row);
  if (row.variant != 0 && same_batches(row.variant))
    if (auto base = curves(runs.of_first_seed(0)); !base.empty()) evidence.base = std::move(base.front());
  row.gate = gate.explanation;
  row.verdict = judge(gate, evidence);
  if (gate.overfit > 0 && !evidence.own.empty()) {
    row.overfit = {gate.overfit, largest_last_loss(curves(runs.sound(row.variant)))};
    if (row.verdict.passed && !row.overfit->learned())
      row.end_badly(Status::broken,
                    "with another seed the last loss of its batch is " + fixed(row.overfit->last, 4),
                    ErrorCode::wrong_result);
  }
  if (row.verdict.undecided) leave("not checked bit for bit: its reference ran only once");
  if (!row.verdict.passed) row.end_badly(Status::broken, row.verdict.message, ErrorCode::wrong_result);
  if (!row.verdict.compared) mark_above_broken(row);
  if (row.status == Status::broken) culprits_.try_emplace(row.variant, stored_.variant(row.variant).added);
  if (row.verdict.compared) {
    const auto& subject = (gate.subject ? *evidence.subject : evidence.own.front()).losses;
    const auto& reference = evidence.reference.front().losses;
    const size_t last = std::min(subject.size(), reference.size()) - 1;
    row.loss_change = subject[last] - reference[last];
    row.loss_change_at = static_cast<int64_t>(last) + 1;
    for (size_t i = 0; i <= last; ++i)
      row.losses_apart.push_back(
          subject[i] == reference[i] ? 0 : std::abs(subject[i] - reference[i]) / std::abs(reference[i]));
    row.loss_against = gate.reference ? "its reference run" : stored_.variant(gate.reference_variant).name;
    if (row.external && !row.verdict.norm)
      row.gate += "; the program reports no gradient norms, so only losses are compared";
  } else if (stored_.variant(row.variant).previous >= 0) {
    row.checked = false;
    if (gate.compares()) row.notes.push_back(row.verdict.message);
  }
}

/// A program whose steps have other tokens than the nearest rung below trains another batch than stated.
void CheckedRows::check_tokens(Row& row) const {
  const auto length = [](const Row& one) -> std::optional<int64_t> {
    const auto same = [&](const StepResult& step) { return step.positions == one.steps.front().positions; };
    if (one.steps.empty() || !std::ranges::all_of(one.steps, same)) return std::nullopt;
    return one.steps.front().positions;
  };
  for (int64_t i = stored_.variant(row.variant).previous; i >= 0; i = stored_.variant(i).previous) {
    const Row& below = rows_[static_cast<size_t>(i)];
    const auto now = length(row), then = length(below);
    if (!below.ok() || !difference_of_problems(stored_, row.variant, stored_, i).empty()) continue;
    if (now && then && now != then)
      row.end_badly(Status::failed,
                    "its steps have " + std::to_string(*now) + " tokens, but the steps of '" + below.name +
                        "' have " + std::to_string(*then) +
                        "\nif the rung changes the batch, state it: train = { micro_batch = ... }",
                    ErrorCode::wrong_result);
    return;
  }
}

/// Whether a variant trains on the same batches as the base.
bool CheckedRows::same_batches(int64_t variant) const {
  const RunSpec &spec = stored_.variant(variant).spec, &of_base = stored_.variants.front().spec;
  const auto &one = usable_[static_cast<size_t>(variant)], &base = usable_.front();
  return one && base && same_task(spec, of_base) && spec.train.seed == of_base.train.seed &&
         one->problem.global_batch == base->problem.global_batch;
}

/// Of the row that owns the runs.
void CheckedRows::copy_check(Row& row, const Row& owner) {
  static_cast<RowCheck&>(row) = owner;
  if (!owner.ok()) row.end_badly(owner.status, owner.reason, owner.code);
  if (const auto culprits = culprits_.find(owner.variant); culprits != culprits_.end())
    culprits_.emplace(row.variant, culprits->second);
}

/// Marks a rung as broken if it still stacks the plugins that broke the rung below, until a run shows
/// otherwise. Without this rule, a rung with another batch, which is not compared, would hide the error.
void CheckedRows::mark_above_broken(Row& row) {
  const auto below = culprits_.find(stored_.variant(row.variant).previous);
  if (below == culprits_.end()) return;
  const auto& stacked = stored_.variant(row.variant).spec.plugins;
  const bool gone =
      std::ranges::any_of(below->second, [&](const PluginUse& culprit) { return !has(stacked, culprit); });
  if (gone) return;
  row.end_badly(Status::broken,
                "it builds on '" + rows_[static_cast<size_t>(below->first)].name + "', which is broken",
                ErrorCode::wrong_result);
  culprits_.emplace(row.variant, below->second);
}

std::vector<Row> checked_rows(const Stored& stored, const VariantRuns& runs) {
  CheckedRows rows(stored);
  for (const Variant& variant : stored.variants) rows.update(variant, runs);
  return std::move(rows).release();
}
}  // namespace optrush
