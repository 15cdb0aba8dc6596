#include <algorithm>

#include "base/text.h"
#include "report/analysis/finding_parts.h"
#include "report/analysis/problem.h"
#include "report/numbers/format.h"

namespace optrush {
namespace {
std::string needs(const Row& row) {
  return counted(*row.time_to_loss->steps, "step") + " and " + duration(*row.time_to_loss->seconds);
}

double seconds(const Row* row) { return *row->time_to_loss->seconds; }

/// The final loss of a row that does not reach the target in every round.
std::string comes_to(const Row& row) {
  if (row.time_to_loss->in_some_rounds) return name_in_text(row.name) + " reaches it only in some rounds";
  return name_in_text(row.name) + " ends at " + fixed(row.time_to_loss->last, 3);
}

/// The row closest to the target among those that do not reach it.
const Row& nearest(const Rows& rows) {
  return **std::ranges::min_element(rows, {}, [](const Row* row) { return row->time_to_loss->last; });
}
}  // namespace

bool misses_loss(const Analysis& a, const Row& row) {
  const auto& mine = row.time_to_loss;
  if (!mine || !mine->told || mine->seconds) return false;
  return std::ranges::any_of(a.rows, [&](const Row& other) {
    const auto& there = other.time_to_loss;
    return other.ok() && there && there->seconds && there->validated == mine->validated;
  });
}

void add_time_to_loss(const Analysis& a, Sentences& parts) {
  const auto first_told =
      std::ranges::find_if(a.rows, [](const Row& row) { return row.time_to_loss.has_value(); });
  if (first_told == a.rows.end()) return;
  const Rows all = select(a, [&](const Row& row) {
    const auto& there = row.time_to_loss;
    return there && there->validated == first_told->time_to_loss->validated && row.same_as < 0 &&
           same_task(a.spec(row), a.variants.front().spec);
  });
  const std::string target = "a loss of " + exact_number(a.experiment.target_loss);
  const Rows told = those(all, [](const Row& row) { return row.time_to_loss->told; });
  if (told.empty()) {
    if (!all.empty())
      parts.push_back("the runs are too short to show whether a rung reaches " + target +
                      ": the test is the mean of " + std::to_string(kSmoothedSteps) +
                      " training losses, and they have fewer steps");
    return;
  }
  Rows rows = those(told, [](const Row& row) { return row.time_to_loss->seconds.has_value(); });
  const Rows others = those(told, [](const Row& row) { return !row.time_to_loss->seconds; });
  const bool sometimes =
      std::ranges::any_of(others, [](const Row* row) { return row->time_to_loss->in_some_rounds; });
  if (rows.empty()) {
    parts.push_back("no rung reaches " + target + (sometimes ? " in every round: " : ": ") +
                    comes_to(nearest(others)) +
                    ", the nearest; train for more steps, or set a higher target_loss");
    return;
  }
  const Row& first = **std::ranges::min_element(rows, {}, seconds);
  const bool alone = rows.size() == 1;
  const bool equal_steps = std::ranges::all_of(
      rows, [&](const Row* row) { return row->time_to_loss->steps == first.time_to_loss->steps; });
  if (equal_steps && others.empty()) return;
  std::string text = alone && !others.empty() ? "only " + name_in_text(first.name) + " reaches " + target
                                              : name_in_text(first.name) + " reaches " + target + " first";
  text += ", after " + needs(first);
  std::erase(rows, &first);
  if (!equal_steps) {
    const Row& next = **std::ranges::min_element(rows, {}, seconds);
    text += ", and " + name_in_text(next.name) + " is next, after " + needs(next);
    const double apart = std::max(first.time_to_loss->since_before, next.time_to_loss->since_before);
    if (seconds(&next) - seconds(&first) < apart)
      text += " (the difference is less than the " + duration(apart) + " between two losses)";
  }
  if (!others.empty())
    text += "; " +
            (others.size() == 1 ? ""
                                : std::to_string(others.size()) + " rungs do not reach it" +
                                      (sometimes ? " in every round" : "") + "; of these, ") +
            comes_to(nearest(others)) + (others.size() == 1 && !sometimes ? ", and does not reach it" : "");
  parts.push_back(text);
}

void add_overfit(const Analysis& a, Sentences& parts) {
  Rows rows, failed;  // a row that did not learn the batch has not ended well
  for (const Row& row : a.rows)
    if (row.overfit && row.same_as < 0) (row.overfit->learned() ? rows : failed).push_back(&row);
  if (rows.empty() && failed.empty()) return;
  const auto last = [](const Row* row) { return row->overfit->last; };
  const auto loss = [](const Row& row) { return fixed(row.overfit->last, 4); };
  const std::string required =
      "below " + exact_number((rows.empty() ? failed : rows).front()->overfit->required);
  if (failed.empty() && rows.size() == 1)
    parts.push_back(name_in_text(rows.front()->name) + " learns one batch: its last loss is " +
                    loss(*rows.front()) + " (required: " + required + ")");
  else if (failed.empty())
    parts.push_back("all " + std::to_string(rows.size()) +
                    " stacks learn one batch: their last losses are at most " +
                    loss(**std::ranges::max_element(rows, {}, last)) + " (required: " + required + ")");
  else
    parts.push_back(std::to_string(failed.size()) + " of " +
                    counted(std::ssize(rows) + std::ssize(failed), "stack") +
                    (failed.size() == 1 ? " does" : " do") + " not learn one batch (required: a last loss " +
                    required + "): " + names_text(failed, [&](const Row& row) {
                      return name_in_text(row.name) + " (" + loss(row) + ")";
                    }));
}
}  // namespace optrush
