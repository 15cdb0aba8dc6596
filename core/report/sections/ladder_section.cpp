#include <algorithm>
#include <map>
#include <set>

#include "analysis/numbers/format.h"
#include "analysis/numbers/verdict.h"
#include "analysis/quantities.h"
#include "base/text.h"
#include "report/claims/claims.h"
#include "report/sections/document.h"

namespace optrush {
namespace {
/// A speed relative to another row, which is named unless it is `expected`. An undecided ratio must not look
/// like an answer.
std::string speed_cell(const Comparison& c, int64_t expected) {
  constexpr size_t kShort = 24;  // the remark for † below also names the other row
  if (!c.speed) return kUnknown;
  const std::string cell = ratio_cell(*c.speed) + (c.differs.empty() ? "" : " †");
  const bool named = c.variant != expected && (c.differs.empty() || c.name.size() <= kShort);
  return named ? cell + " vs " + c.name : cell;
}

/// The same without the interval.
std::string total_cell(const Comparison& c) {
  if (!c.speed) return kUnknown;
  const std::string mark = c.differs.empty() ? "" : " †";
  const Outcome outcome = verdict_of(*c.speed).outcome;
  const std::string word(to_string(outcome));
  if (outcome == Outcome::same_run) return word;
  if (outcome == Outcome::alike || outcome == Outcome::undecided) return word + mark;
  return ratio_only(c.speed->value) + (outcome == Outcome::too_few ? " (no claim)" : "") + mark;
}

std::string memory_cell(const Row& row) {
  std::string cell = or_unknown(row.memory.allocated, bytes);
  if (row.previous.memory) cell += " (" + change(*row.previous.memory, 0) + ")";
  return cell;
}

/// Explains the losses, if a column shows more than the last training loss.
void explain_losses(const Analysis& a, const Rows& rows, Section& section) {
  const auto validated = [](const Row* row) { return !row->validation.empty(); };
  if (std::ranges::any_of(rows, validated)) {
    const ValidateSpec& validate = a.experiment.base.validate;
    // Without `validate`, another program reports its validation loss.
    const std::string on = validate.every == 0 ? "" : ", on " + counted(validate.sequences, "sequence");
    section.bullets.push_back(
        "Val. loss is the validation loss after the last step" +
        (a.experiment.seeds.empty() ? "" : " with seed " + std::to_string(a.experiment.seeds.front())) + on +
        (on.empty()                         ? "."
         : validate.data.kind == "held_out" ? " that training never reads."
                                            : " of the validation data."));
  }
  std::set<std::string> kinds;
  for (const Row* row : rows)
    if (row->time_to_loss)
      kinds.insert(row->time_to_loss->validated
                       ? "validation loss"
                       : "mean training loss of " + std::to_string(kSmoothedSteps) + " steps");
  if (kinds.empty()) return;
  section.bullets.push_back("Time to loss is the time of the training steps, warm-up included, until the " +
                            join({kinds.rbegin(), kinds.rend()}, " or ") + " is " +
                            exact_number(a.experiment.target_loss) +
                            " or less. It is the median of the rounds, if every round reaches it.");
}

/// One line per environment that rows set.
void explain_environments(const Analysis& a, const Rows& rows, Section& section) {
  std::map<std::string, std::vector<std::string>> rungs;
  for (const Row* row : rows) {
    const auto variables =
        texts_of(a.spec(*row).environment, [](const auto& one) { return one.first + "=" + one.second; });
    if (!variables.empty()) rungs[join(variables, " ")].push_back(row->name);
  }
  for (const auto& [variables, names] : rungs)
    section.bullets.push_back("Environment " + variables + ": " + listed_names(names));
}

/// One line for all rows that are compared with another problem.
void explain_other_problems(const Rows& rows, Section& section) {
  NamesBy explained;  // rows by reference
  for (const Row* row : rows) {
    const Comparison &previous = row->previous, &base = row->base;
    const bool one_reason =
        base.speed && previous.variant != base.variant && previous.differs == base.differs;
    std::vector<std::string> others;
    for (const Comparison* c : {&previous, &base})
      if (c->speed && !c->differs.empty())
        others.push_back(name_in_text(c->name) +
                         (one_reason && c == &previous ? "" : " (" + c->differs + ")"));
    others.erase(std::unique(others.begin(), others.end()), others.end());
    if (others.empty()) continue;
    add_name(explained, join(others, " and "), row->name);
  }
  for (const auto& [against, names] : explained)
    section.bullets.push_back("† " + listed_names(names) + ": not like for like with " + against + ".");
}

/// One line per row that shows another row's runs.
void explain_same_runs(const Analysis& a, const Rows& rows, Section& section) {
  for (const Row* row : rows)
    if (row->same_as >= 0)
      section.bullets.push_back(name_in_text(row->name) + " has the same stack as " +
                                name_in_text(a.row(row->same_as)->name) + ", so it shows the same run.");
}

/// The micro-batch of each row, if rows of one problem split it differently.
void explain_micro_batches(const Analysis& a, const Rows& rows, Section& section) {
  std::vector<std::string> splits;
  std::set<int64_t> micro_batches;
  bool accumulates = false;
  for (const Row* row : rows) {
    const TrainSpec& train = a.spec(*row).train;
    micro_batches.insert(train.micro_batch);
    accumulates = accumulates || train.accumulation > 1;
    splits.push_back(name_in_text(row->name) + " " + std::to_string(train.micro_batch) +
                     (train.accumulation > 1 ? " x " + std::to_string(train.accumulation) : ""));
  }
  if (accumulates && micro_batches.size() > 1)
    section.bullets.push_back("Sequences per micro-batch, times micro-batches per step: " + join(splits) +
                              ".");
}

Bars bars_of(const Rows& rows, size_t column) {
  Bars bars{column, {}};
  for (const Row* row : rows)
    bars.intervals.push_back(row->previous.speed ? row->previous.speed->interval : std::nullopt);
  return bars;
}

/// If every row is compared with the base, "vs previous" is enough.
bool over_base_alone(const Rows& rows) {
  return std::ranges::all_of(rows, [](const Row* row) { return row->previous.variant == row->base.variant; });
}

Table rung_table(const Analysis& a, const Rows& rows) {
  const bool one = over_base_alone(rows);
  Table table;
  const auto add = [&](const char* title, auto&& cell) { table.add({title, true}, rows, cell); };
  table.add({"rung"}, rows, &Row::name);
  add("tokens/s", [](const Row* row) { return or_unknown(row->tokens_per_second, grouped); });
  if (std::ranges::any_of(rows, &Row::trains_on_fewer))
    add("trained tokens/s",
        [](const Row* row) { return or_unknown(row->trained_tokens_per_second, grouped); });
  table.bars = {bars_of(rows, table.columns.size())};
  add(one ? "vs base" : "vs previous",
      [&](const Row* row) { return speed_cell(row->previous, one ? 0 : row->variant - 1); });
  if (!one) add("total", [](const Row* row) { return total_cell(row->base); });
  add("peak memory", [](const Row* row) { return memory_cell(*row); });
  if (std::ranges::any_of(rows, [](const Row* row) { return !row->validation.empty(); }))
    add("val. loss", [&](const Row* row) { return cell_of(quantity("validation_loss"), a, *row); });
  if (a.experiment.target_loss > 0)
    add("time to loss", [](const Row* row) { return time_cell(row->time_to_loss); });
  table.add({"check"}, rows, [](const Row* row) { return loss_check(*row); });
  return table;
}

/// For example ": losses within 0.48 % (up to 2 % allowed), gradient norms within 1 % (25 % allowed)": the
/// largest differences of the checked rows.
std::string agreement_text(const Rows& rows) {
  std::vector<Deviation> losses, norms;
  for (const Row* row : rows) {
    if (row->verdict.compared && row->verdict.loss.at_step >= 0) losses.push_back(row->verdict.loss);
    if (row->verdict.norm && row->verdict.norm->at_step >= 0) norms.push_back(*row->verdict.norm);
  }
  constexpr double kLeast = 1e-5;  // as a percentage with few digits
  std::string text;
  for (const auto& [what, all] : {std::pair("losses", &losses), std::pair("gradient norms", &norms)}) {
    if (all->empty()) continue;
    const auto [least, most] = std::ranges::minmax(*all, {}, &Deviation::tolerance);
    const double worst = std::ranges::max(*all, {}, &Deviation::worst).worst;
    text += std::string(text.empty() ? ": " : ", ") + what +
            (most.tolerance == 0 ? " equal bit for bit"
                                 : " within " + share_text(std::max(worst, kLeast)) + " (" +
                                       (least.tolerance == most.tolerance ? "" : "up to ") +
                                       share_text(most.tolerance) + " allowed)");
  }
  return text;
}

/// Explains how to read the table.
void explain_table(const Analysis& a, const Rows& rows, Section& section) {
  const auto axis = section.table->bars.front().axis();
  const bool elsewhere = std::ranges::any_of(
      rows, [&](const Row* row) { return row->previous.speed && row->previous.variant != row->variant - 1; });
  const std::string against = over_base_alone(rows) ? "the base"
                              : elsewhere           ? "the row above, or to the row that the cell names"
                                                    : "the row above";
  // Without bars, no sentence before this one names the row.
  const std::string from = !elsewhere || over_base_alone(rows) ? against
                           : axis                              ? "that row"
                                  : "the row above, or from the row that 'vs previous' names";
  if (std::ranges::any_of(rows, [](const Row* row) { return row->previous.speed && row->rounds.size() > 1; }))
    section.bullets.emplace_back(
        "Tokens/s are medians over rounds. Ratios pair the rungs round by round, so they differ from the "
        "quotient of the medians.");
  if (axis)
    section.bullets.push_back(
        "A bar shows the interval of the ratio to " + against + " (" + percent(1 - a.standard.error, 0) +
        " for all intervals of the report together), on a logarithmic scale from " + ratio_only(axis->low) +
        " to " + ratio_only(axis->high) + ". The line marks 1.00x.");
  if (std::ranges::any_of(rows, &Row::trains_on_fewer))
    section.bullets.emplace_back(
        "Tokens/s count every position except padding, prompts included; trained tokens/s count tokens with "
        "a loss.");
  if (std::ranges::any_of(rows, [](const Row* row) { return row->memory.allocated.has_value(); })) {
    const bool changes =
        std::ranges::any_of(rows, [](const Row* row) { return row->previous.memory.has_value(); });
    section.bullets.push_back("Peak memory is the most that tensors hold in the timed steps." +
                              (changes ? " In brackets: the change from " + from + "." : ""));
  }
  const Rows sound = rows_where(rows, [](const Row& row) { return loss_check(row) == "✓"; });
  if (sound.empty()) return;
  const auto learns = std::ranges::find_if(rows, [](const Row* row) { return row->overfit.has_value(); });
  section.bullets.push_back(
      "✓ means that " +
      (learns == rows.end()
           ? "losses and gradient norms follow the reference" + agreement_text(sound)
           : "the last training loss of the repeated batch is below " +
                 exact_number((*learns)->overfit->required) +
                 ", and that losses and gradient norms follow the reference where there is one" +
                 agreement_text(sound)) +
      ".");
}

/// Whether the reason alone states what happened: "out of memory in the backward".
bool says_itself(Status status) { return status == Status::oom || status == Status::skipped; }

/// States the failure of each row that failed.
void explain_failures(const Rows& rows, Section& section) {
  for (const Row* row : rows)
    if (!row->ok())
      section.bullets.push_back(name_in_text(row->name) +
                                (says_itself(row->status) ? "" : " " + what_happened(row->status)) + ": " +
                                with_cure(row->reason));
}

void name_those_left_out(const Analysis& a, Section& section) {
  const auto names = texts_of(rows_where(a.rows, [](const Row& row) { return !row.asked; }), &Row::name);
  if (!names.empty()) section.bullets.push_back("Left out by --only: " + listed_names(names) + ".");
}

Section family_section(const Analysis& a, const Family& family) {
  Section section{.title = family.title, .chart = "speed" + family.suffix};
  if (!family.title.empty()) section.lead = "Speed, memory and losses of these rows, as in the first table.";
  section.table = rung_table(a, family.rows);
  explain_table(a, family.rows, section);
  explain_failures(family.rows, section);
  explain_losses(a, family.rows, section);
  explain_environments(a, family.rows, section);
  explain_other_problems(family.rows, section);
  explain_micro_batches(a, family.rows, section);
  explain_same_runs(a, family.rows, section);
  return section;
}
}  // namespace

std::vector<Family> families_of(const Analysis& a) {
  std::vector<Family> families = {
      {"", "", {}}, {"Full stack, and less or more of it", "-ablation", {}}, {"Combinations", "-grid", {}}};
  for (const Row& row : a.rows) {
    if (!row.asked) continue;
    const bool grid = row.group == "grid";
    const bool ablation = row.group == "full" || row.group == "without" || row.group == "alone";
    families[grid ? 2 : ablation ? 1 : 0].rows.push_back(&row);
  }
  std::erase_if(families, [](const Family& family) { return family.rows.empty(); });
  // The base alone is not a ladder: it is the first row of the only table.
  if (families.size() == 2 && families.front().rows.size() == 1) {
    families.front().rows.insert(families.front().rows.end(), families.back().rows.begin(),
                                 families.back().rows.end());
    families.pop_back();
  }
  return families;
}

std::vector<Section> ladder_sections(const Analysis& a) {
  std::vector<Section> sections;
  for (const Family& family : families_of(a)) sections.push_back(family_section(a, family));
  if (!sections.empty()) name_those_left_out(a, sections.front());
  return sections;
}
}  // namespace optrush
