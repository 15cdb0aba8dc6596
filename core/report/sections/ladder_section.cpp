#include <algorithm>
#include <map>
#include <set>

#include "base/counted.h"
#include "base/suggest.h"
#include "report/analysis/quantities.h"
#include "report/numbers/format.h"
#include "report/sections/document.h"

namespace optrush {
namespace {
/// A speed against another row's, which is named where it is not `expected`.
std::string speed_cell(const Comparison& c, int64_t expected) {
  if (!c.speed) return std::string(kUnknown);
  std::string cell = ratio_text(*c.speed);
  if (!c.differs.empty()) return cell + " †";  // a remark below names it
  return c.variant == expected ? cell : cell + ", to " + c.name;
}

std::string row_memory_cell(const Row& row) {
  std::string cell = or_unknown(row.memory.allocated, bytes);
  if (row.previous.memory) cell += " (" + change(*row.previous.memory) + ")";
  return cell;
}

std::string mfu_cell(const Row& row) {
  if (!row.model_flops_per_second) return std::string(kUnknown);
  const std::string rate = flops_rate(*row.model_flops_per_second);
  std::vector<std::string> parts;
  if (row.mfu) parts.push_back(percent(*row.mfu));
  if (row.mfu_of_dtype) parts.push_back(percent(*row.mfu_of_dtype) + " of " + row.dtype);
  return parts.empty() ? rate : join(parts) + " (" + rate + ")";
}

std::string phases_cell(const Row& row) {
  std::vector<std::string> parts;
  bool known = false;
  for (const auto& [name, seconds] : row.phases) {
    if (seconds && *seconds == 0) continue;  // a single device communicates nothing
    known = known || seconds;
    parts.push_back(name + " " + or_unknown(seconds, duration));
  }
  return known ? join(parts, ", ") : std::string(kUnknown);
}

/// The change against what the gate compares with.
std::string loss_cell(const Row& row) {
  if (!row.final_loss) return std::string(kUnknown);
  const std::string final = fixed(*row.final_loss, 4);
  if (!row.loss_change) return std::string(kUnknown) + " (" + final + ")";
  const double value = *row.loss_change;
  const std::string change = value == 0 ? "0" : (value > 0 ? "+" : "") + scientific(value);
  // Runs of the gate are shorter than the row's own.
  const bool earlier = row.loss_change_at < std::ssize(row.steps);
  return change + (earlier ? " at step " + std::to_string(row.loss_change_at) : "") + " to " +
         row.loss_against + " (" + final + ")";
}

/// Which tokens each figure counts, where they are not all the same.
void explain_tokens(const std::vector<const Row*>& rows, Section& section) {
  if (std::ranges::none_of(rows, [](const Row* row) { return row->trains_on_fewer(); })) return;
  section.bullets.emplace_back(
      "Tokens/s are tokens processed: every position of a sequence but padding, prompts among them. "
      "Speedups, "
      "MFU and HFU are of these. Trained tokens/s are those that a loss is taken on. Padding is its part of "
      "all positions");
}

/// What the losses of these rows are, where a column tells more than the last one of training.
void explain_losses(const Analysis& a, const std::vector<const Row*>& rows, Section& section) {
  const auto validated = [](const Row* row) { return !row->validation.empty(); };
  if (std::ranges::any_of(rows, validated)) {
    const ValidateSpec& validate = a.experiment.base.validate;
    section.bullets.push_back("Validation loss: after the last step, of " +
                              counted(validate.sequences, "sequence") + " that training never reads");
  }
  const auto timed = [&](bool by_validation) {
    return std::ranges::any_of(rows, [&](const Row* row) {
      return row->time_to_loss && row->time_to_loss->validated == by_validation;
    });
  };
  if (!timed(true) && !timed(false)) return;
  const std::string smoothed = "mean training loss of " + std::to_string(kSmoothedSteps) + " steps";
  section.bullets.push_back("Time to loss: seconds of training steps, warm-up included, until the " +
                            (!timed(false)  ? "validation loss"
                             : !timed(true) ? smoothed
                                            : "validation loss, where there is none the " + smoothed + ",") +
                            " is " + exact_number(a.experiment.target_loss) +
                            " or less; the median of the rounds, where all of them reach it");
}

std::string status_cell(const Row& row) {
  return std::string(to_string(row.status)) + (row.ok() && !row.checked ? " (not checked)" : "");
}

/// One line for each environment that rows set.
void tell_environments(const Analysis& a, const std::vector<const Row*>& rows, Section& section) {
  std::map<std::string, std::vector<std::string>> rungs;
  for (const Row* row : rows) {
    std::vector<std::string> variables;
    for (const auto& [name, value] : a.variants[static_cast<size_t>(row->variant)].spec.environment)
      variables.push_back(name + "=" + value);
    if (!variables.empty()) rungs[join(variables, " ")].push_back(row->name);
  }
  for (const auto& [variables, names] : rungs)
    section.bullets.push_back("Environment " + variables + ": " + join(names));
}

/// One line for all rows that are compared across the same problems.
void explain_other_problems(const std::vector<const Row*>& rows, Section& section) {
  std::vector<std::pair<std::string, std::vector<std::string>>> explained;  // against what, and whose
  for (const Row* row : rows) {
    std::vector<std::string> others;
    for (const Comparison* c : {&row->previous, &row->base})
      if (c->speed && !c->differs.empty()) others.push_back(c->name + " (" + c->differs + ")");
    others.erase(std::unique(others.begin(), others.end()), others.end());
    if (others.empty()) continue;
    const std::string against = join(others, " and ");
    auto line = std::ranges::find(explained, against, &decltype(explained)::value_type::first);
    if (line == explained.end()) line = explained.insert(line, {against, {}});
    line->second.push_back(row->name);
  }
  for (const auto& [against, names] : explained)
    section.bullets.push_back("† " + join(names) + ": not like for like with " + against);
}

/// Which peak each share is one of.
void explain_mfu(const Analysis& a, const std::vector<const Row*>& rows, Section& section) {
  if (std::ranges::none_of(rows, [](const Row* row) { return row->mfu.has_value(); })) return;
  std::string text = "MFU divides by " + mfu_peak_text(a.context);
  std::map<std::string, std::vector<std::string>> own;
  for (const Row* row : rows)
    if (row->mfu_of_dtype) own[row->dtype].push_back(row->name);
  for (const auto& [dtype, names] : own)
    text += "; \"of " + dtype + "\" by " + or_unknown(peak_of_dtype(a.context, dtype), flops_rate) +
            ", measured, of rows that multiply in it";
  section.bullets.push_back(text);
}

/// One line for each row that shows another's runs.
void explain_same_runs(const Analysis& a, const std::vector<const Row*>& rows, Section& section) {
  for (const Row* row : rows)
    if (row->same_as >= 0)
      section.bullets.push_back(row->name + ": the same stack as " + a.row(row->same_as)->name +
                                ", and so the same run");
}

/// The micro-batch of each row, where rows of one problem split it differently.
void explain_micro_batches(const Analysis& a, const std::vector<const Row*>& rows, Section& section) {
  std::vector<std::string> splits;
  std::set<int64_t> micro_batches;
  bool accumulates = false;
  for (const Row* row : rows) {
    const TrainSpec& train = a.variants[static_cast<size_t>(row->variant)].spec.train;
    micro_batches.insert(train.micro_batch);
    accumulates = accumulates || train.accumulation > 1;
    splits.push_back(row->name + " " + std::to_string(train.micro_batch) +
                     (train.accumulation > 1 ? " x " + std::to_string(train.accumulation) : ""));
  }
  if (accumulates && micro_batches.size() > 1)
    section.bullets.push_back("Sequences of a micro-batch, and how many make a step: " + join(splits));
}

/// Which rows were measured interleaved, where any was.
void explain_interleaving(const std::vector<const Row*>& rows, Section& section) {
  std::vector<std::string> interleaved, later, alone;
  for (const Row* row : rows) {
    if (!row->tokens_per_second) continue;
    const auto ran_alone = [](const InterleavedSamples& round) { return round.group.empty(); };
    if (!row->was_interleaved())
      alone.push_back(row->name);
    else if (!row->rounds.empty() && row->rounds.front() == 0 && ran_alone(row->turns.front()))
      later.push_back(row->name);
    else
      interleaved.push_back(row->name);
  }
  if (interleaved.empty() && later.empty()) return;
  if (later.empty() && alone.empty()) {
    section.bullets.emplace_back("all rows were interleaved step by step");
    return;
  }
  std::vector<std::string> parts;
  if (!interleaved.empty()) parts.push_back("interleaved step by step: " + join(interleaved));
  if (!later.empty())
    parts.push_back("interleaved from the second round on, when their memory is known: " + join(later));
  if (!alone.empty()) parts.push_back("alone: " + join(alone));
  section.bullets.push_back(join(parts, "; "));
}

Section family_section(const Analysis& a, const Family& family) {
  Section section{
      .title = family.title,
      .chart = "speed" + family.suffix,
      .caption = "Median tokens a second of each rung; whiskers from the slowest to the fastest round."};
  section.table = Table{{{"rung"},
                         {"tokens/s", true},
                         {"vs previous", true},
                         {"vs base", true},
                         {"peak active memory (vs previous)", true},
                         {"MFU", true},
                         {"step phases"},
                         {"loss Δ (last step)", true}},
                        {}};
  for (const Row* row : family.rows)
    section.table->rows.push_back({row->name, or_unknown(row->tokens_per_second, grouped),
                                   speed_cell(row->previous, row->variant - 1), speed_cell(row->base, 0),
                                   row_memory_cell(*row), mfu_cell(*row), phases_cell(*row),
                                   loss_cell(*row)});
  const auto put_column = [&](size_t place, const Table::Column& column, auto cell) {
    const auto at = [place](auto& cells) { return cells.begin() + static_cast<std::ptrdiff_t>(place); };
    section.table->columns.insert(at(section.table->columns), column);
    for (size_t i = 0; i < family.rows.size(); ++i) {
      auto& cells = section.table->rows[i];
      cells.insert(at(cells), cell(*family.rows[i]));
    }
  };
  const auto add_column = [&](const Table::Column& column, auto cell) {
    put_column(section.table->columns.size(), column, cell);
  };
  const auto put_quantity = [&](size_t place, std::string_view name) {
    const Quantity& q = quantity(name);
    put_column(place, {q.title, true}, [&](const Row& row) { return cell_of(q, a, row); });
  };
  if (std::ranges::any_of(family.rows, [](const Row* row) { return row->trains_on_fewer(); })) {
    put_quantity(2, "trained_tokens_per_second");
    put_quantity(3, "padding");
  }
  if (std::ranges::any_of(family.rows, [](const Row* row) { return !row->validation.empty(); }))
    put_quantity(section.table->columns.size(), "validation_loss");
  if (a.experiment.target_loss > 0)
    add_column({"time to loss", true}, [](const Row& row) { return text_of(row.time_to_loss); });
  add_column({"status"}, status_cell);
  explain_tokens(family.rows, section);
  explain_losses(a, family.rows, section);
  tell_environments(a, family.rows, section);
  explain_other_problems(family.rows, section);
  explain_micro_batches(a, family.rows, section);
  explain_same_runs(a, family.rows, section);
  explain_interleaving(family.rows, section);
  explain_mfu(a, family.rows, section);
  return section;
}
}  // namespace

std::vector<Family> families_of(const Analysis& a) {
  std::vector<Family> families = {
      {"", "", {}}, {"Full stack, and less or more of it", "-ablation", {}}, {"Combinations", "-grid", {}}};
  for (const Row& row : a.rows) {
    const bool grid = row.group == "grid";
    const bool ablation = row.group == "full" || row.group == "without" || row.group == "alone";
    families[grid ? 2 : ablation ? 1 : 0].rows.push_back(&row);
  }
  std::erase_if(families, [](const Family& family) { return family.rows.empty(); });
  // The base alone is no ladder: it opens the one table that there is.
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
  return sections;
}
}  // namespace optrush
