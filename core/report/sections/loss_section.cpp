#include <algorithm>
#include <limits>

#include "analysis/numbers/format.h"
#include "analysis/quantities.h"
#include "base/text.h"
#include "report/sections/document.h"

namespace optrush {
namespace {
/// The number of compared rows that follow their reference.
std::string loss_lead(const Rows& rows) {
  const auto broken =
      texts_of(rows_where(rows, [](const Row& row) { return row.status == Status::broken; }), &Row::name);
  const auto sound = std::ranges::count_if(
      rows, [](const Row* row) { return row->ok() && row->checked && row->variant != 0; });
  if (broken.empty() && sound == 0) return "This section shows the training loss of every step.";
  if (broken.empty())
    return "The losses of " + counted(sound, "checked rung") + (sound == 1 ? " agree" : " all agree") +
           " with the reference as closely as the plugins promise.";
  return "Broken: " + listed_names(broken) + "." +
         (sound == 0 ? ""
                     : " The losses of " + counted(sound, "other rung") +
                           (sound == 1 ? " agree" : " all agree") + " with the reference.");
}

bool differs_from_reference(const Row& row) {
  return std::ranges::any_of(row.losses_apart, [](double distance) { return distance > 0; });
}

std::string mean_of_last(const Row& row) {
  double sum = 0;
  for (const RoundEnd& end : row.ends) sum += end.last;
  return row.ends.empty() ? kUnknown : fixed(sum / static_cast<double>(row.ends.size()), 4);
}

/// The rows that differ from the base by a time to the loss or by a loss.
bool is_compared(const Row& row) { return row.ok() && (row.base.time_to_loss || row.base.perplexity); }
}  // namespace

std::string shown_round(const Rows& rows) {
  const bool first = std::ranges::all_of(rows, [](const Row* row) { return row->shown_round == 0; });
  return first ? "first round" : "longest round";
}

std::string loss_check(const Row& row) {
  if (row.status == Status::skipped) return "skipped";
  if (row.status == Status::oom) return "✗ out of memory";
  if (!row.ok()) return "✗ " + std::string(to_string(row.status));
  if (row.previous.worse) return "✗ trains worse";
  if (row.overfit) return "✓";
  if (row.variant == 0) return kUnknown;
  return row.checked ? "✓" : "not checked";
}

std::string loss_cell(const Row& row) {
  if (!row.final_loss) return kUnknown;
  const std::string final = fixed(*row.final_loss, 4);
  if (!row.loss_change) return kUnknown + " (" + final + ")";
  const double value = *row.loss_change;
  const std::string change = value == 0 ? "0" : (value > 0 ? "+" : "") + scientific(value);
  // Runs of the gate are shorter than the row's runs.
  const bool earlier = row.loss_change_at < std::ssize(row.steps);
  return change + (earlier ? " at step " + std::to_string(row.loss_change_at) : "") + " from " +
         row.loss_against + " (" + final + ")";
}

std::string time_cell(const std::optional<TimeToLoss>& time) {
  return time && time->seconds ? duration(*time->seconds) : text_of(time);
}

Section loss_section(const Analysis&, const Family& family) {
  const bool apart = !rows_where(family.rows, differs_from_reference).empty();
  Section section{.title = title_for("Loss and correctness", family), .chart = "loss" + family.suffix};
  section.caption = std::string(apart ? "The upper chart" : "The chart") +
                    " shows the training loss of every step of each rung's " + shown_round(family.rows) +
                    ", warm-up included.";
  if (apart)
    section.caption +=
        " The lower chart shows its relative difference from the reference; the dashed "
        "line is the largest difference allowed.";
  section.table = Table({"rung", ">last training loss, and its change", "comparison", "result",
                         ">loss tolerance", ">norm tolerance"});
  const auto allowed = [](double tolerance) {
    return tolerance == 0 ? std::string("equal bits") : share_text(tolerance);
  };
  for (const Row* row : family.rows) {
    const GateVerdict& verdict = row->verdict;
    if (!row->final_loss) continue;
    section.table->rows.push_back(
        {row->name, loss_cell(*row), row->gate.empty() ? kUnknown : row->gate,
         verdict.message.empty() ? kUnknown : verdict.message,
         verdict.compared ? allowed(verdict.loss.tolerance) : kUnknown,
         or_unknown(verdict.norm, [&](const Deviation& d) { return allowed(d.tolerance); })});
  }
  section.lead = loss_lead(family.rows);
  section.bullets = {
      "The check compares the losses and gradient norms of the first steps, and the means of later losses. "
      "It uses means because equally good runs drift apart at single steps. Exact plugins must match in "
      "every step."};
  for (const LossLine& line : loss_lines(family.rows)) {
    const auto names = texts_of(line.others, &Row::name);
    if (!names.empty())
      section.bullets.push_back("In the chart, the curve of " + name_in_text(line.row->name) +
                                (names.size() == 1 ? " covers the curve of " : " covers the curves of ") +
                                listed_names(names) + ".");
  }
  const Rows equal = rows_where(
      family.rows, [](const Row& row) { return !row.losses_apart.empty() && !differs_from_reference(row); });
  if (!equal.empty())
    section.bullets.push_back("Losses equal to the reference bit for bit, in the steps that both have: " +
                              listed_names(texts_of(equal, &Row::name)) + ".");
  return section;
}

Rows rows_over_time(const Analysis& a, const Rows& rows) {
  Rows found = rows_where(rows, [&](const Row& row) {
    return row.ok() && row.runs_of() == row.variant &&
           (a.experiment.target_loss > 0 || !row.validation.empty()) &&
           !losses_by_time(row.steps, row.validation).empty();
  });
  // Training and validation losses are not compared with each other.
  if (const Rows validated = rows_where(found, [](const Row& row) { return !row.validation.empty(); });
      !validated.empty())
    found = validated;
  // A single row is already in the chart of losses.
  return found.size() > 1 ? found : Rows();
}

Section time_section(const Analysis& a, const Family& family) {
  const auto rows = rows_over_time(a, family.rows);
  if (rows.empty()) return {};
  double shortest = std::numeric_limits<double>::infinity();
  for (const Row* row : rows)
    shortest = std::min(shortest, losses_by_time(row->steps, row->validation).back().seconds);
  const std::string loss = loss_name(!rows.front()->validation.empty());
  Section section{
      .title = title_for("Loss over time", family),
      .lead = "This section compares losses after the same training time.",
      .chart = "time" + family.suffix,
      .caption = "The chart shows the " + loss + " of each rung's " + shown_round(rows) +
                 " against the time of its steps.",
      .table = Table({"rung", ">" + loss + " after " + duration(shortest), ">last " + loss, ">after"}),
      .bullets = {"The first column shows the loss at the time at which the first rung had "
                  "finished all its steps. It is interpolated between two losses."}};
  for (const Row* row : rows) {
    const auto losses = losses_by_time(row->steps, row->validation);
    section.table->rows.push_back({row->name,
                                   or_unknown(loss_between(losses, shortest, &TimedLoss::seconds),
                                              [](double x) { return fixed(x, 4); }),
                                   fixed(losses.back().loss, 4), duration(losses.back().seconds)});
  }
  return section;
}

Section equal_loss_section(const Analysis& a) {
  if (std::ranges::none_of(a.rows, is_compared)) return {};
  const bool timed =
      std::ranges::any_of(a.rows, [](const Row& row) { return row.base.time_to_loss.has_value(); });
  const bool seeded =
      std::ranges::any_of(a.rows, [](const Row& row) { return row.base.perplexity.has_value(); });
  Section section{.title = timed ? "Time to an equal loss" : "Losses over seeds",
                  .lead = "Each rung is compared with the base in the same rounds" +
                          std::string(a.experiment.seeds.empty() ? "." : ", which have the same seeds.")};
  const Rows rows =
      rows_where(a.rows, [](const Row& row) { return is_compared(row) || (row.variant == 0 && row.ok()); });
  Table table;
  const auto add = [&](const std::string& title, auto&& cell) { table.add({title, true}, rows, cell); };
  table.add({"rung"}, rows, &Row::name);
  add("tokens/s vs base", [](const Row* row) { return or_unknown(row->base.speed, ratio_text); });
  if (timed) {
    add("steps", [](const Row* row) {
      const auto& time = row->time_to_loss;
      return time && time->steps ? std::to_string(*time->steps) : kUnknown;
    });
    add("time to loss", [](const Row* row) { return time_cell(row->time_to_loss); });
    add("as soon as the base", [](const Row* row) { return or_unknown(row->base.time_to_loss, ratio_text); });
  }
  const bool validated = rows.back()->ends.front().validated;  // as in each compared row
  if (seeded) {
    add("last " + loss_name(validated) + ", mean", [](const Row* row) { return mean_of_last(*row); });
    add("difference from the base",
        [](const Row* row) { return or_unknown(row->base.perplexity, difference_text); });
  }
  section.table = std::move(table);
  if (timed)
    section.bullets.emplace_back(
        "1.05x as soon means that the rung needs 1/1.05 of the base's training time. Steps are of the round "
        "with the most; the time is the median of the rounds.");
  if (seeded && !validated)
    section.bullets.push_back("The last training loss is the mean of the last " +
                              std::to_string(kSmoothedSteps) + ".");
  if (seeded) section.bullets.emplace_back("Differences are means over seeds.");
  section.bullets.emplace_back("In brackets are paired t intervals over the rounds.");
  return section;
}
}  // namespace optrush
