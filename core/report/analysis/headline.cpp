#include <algorithm>
#include <cmath>
#include <functional>

#include "base/text.h"
#include "report/analysis/finding_parts.h"
#include "report/analysis/problem.h"
#include "report/numbers/format.h"

namespace optrush {
namespace {
constexpr size_t kMostClauses = 5;     ///< limit for a sentence that can be remembered
constexpr size_t kMostNames = 2;       ///< limit for names of one kind; otherwise their number
constexpr double kLargeSaving = 0.2;   ///< a saving of memory without a loss of speed above this is mentioned
constexpr double kSmallChange = 0.02;  ///< a smaller change of speed is stated with a decimal

/// Reduces "1.96x [1.88, 2.04]" to "1.96x". The table and the findings have the intervals.
std::string without_intervals(const std::string& text) {
  std::string short_text;
  for (size_t i = 0; i < text.size();) {
    const size_t end = text.find(']', i);
    const bool interval = text.compare(i, 2, " [") == 0 && end != std::string::npos &&
                          text.find_first_not_of("0123456789., ", i + 2) == end;
    if (interval)
      i = end + 1;
    else
      short_text += text[i++];
  }
  return short_text;
}

std::string times(const Ratio& speed) { return without_intervals(interval_text(speed)); }

std::string less(double ratio) {
  const double part = std::abs(ratio - 1);
  return percent(part, part < kSmallChange ? 1 : 0);
}

std::string with_memory(const std::optional<double>& ratio) {
  const std::string change = memory_change(ratio);
  return change.empty() ? "" : " with " + change;
}

/// "A and B", or "3 rungs" if there are too many.
std::string some_names(const Rows& rows) {
  if (rows.size() > kMostNames) return counted(std::ssize(rows), "rung");
  return name_in_text(rows.front()->name) +
         (rows.size() == 2 ? " and " + name_in_text(rows.back()->name) : "");
}

/// " (about 7 more rounds would decide it)"
std::string rounds_to_decide(const Verdict& verdict) {
  const std::string text = what_would_tell(verdict);
  return text.empty() ? "" : " (" + text + ")";
}

std::string name_of(const Comparison& c) { return c.variant == 0 ? "the base" : name_in_text(c.name); }

/// The speed and memory of a stack or a rung relative to the base.
std::string stack_text(const std::string& name, const Comparison& over, const std::string& ranks) {
  const Ratio& speed = *over.speed;
  const std::string memory = with_memory(over.memory);
  const Verdict verdict = verdict_of(speed);
  if (verdict.outcome == Outcome::alike)
    return name + " trains as fast as " + name_of(over) + ranks + memory + " (" + describe(verdict) + ")";
  if (!speed.claim())
    return name + " is not shown to be faster or slower than " + name_of(over) + ranks +
           rounds_to_decide(verdict) + (memory.empty() ? "" : ", and it trains" + memory);
  std::string text = name;
  if (!over.differs.empty())
    text += " trains " + times(speed) + " as many tokens/s" + ranks + " (not like for like: " + over.differs +
            ")";
  else if (speed.value > 1)
    text += " trains " + times(speed) + " as fast" + ranks;
  else
    text += " is " + less(speed.value) + " slower than " + name_of(over) + ranks;
  return text + memory + (over.worse ? ", but trains worse" : "");
}

/// A clause with its importance.
struct Clause {
  int rank = 0;
  std::string text;
};
enum Importance { kWhole, kGain, kOther, kWorse, kFailure, kTrade, kSaving, kUndecided };
using Clauses = std::vector<Clause>;

/// The rung with the largest saving of memory among those that certainly cost no speed; null: none.
const Row* saver_of(const Analysis& a, const Ladder& ladder) {
  const Rows savers = those(ladder.single, [&](const Row& row) {
    const Outcome outcome = verdict_of(*row.previous.speed).outcome;
    return row.previous.memory.value_or(1) <= 1 - kLargeSaving &&
           (outcome == Outcome::faster || outcome == Outcome::alike) && !row.previous.worse &&
           !misses_loss(a, row);
  });
  if (savers.empty()) return nullptr;
  return *std::ranges::min_element(savers, {}, [](const Row* row) { return *row->previous.memory; });
}

std::string saves(const Row& row) { return " saves " + less(*row.previous.memory) + " of the memory"; }

/// The largest gain of a single rung. "Most" means at least half of the total gain, in logarithms.
void add_gain(const Analysis& a, const Ladder& ladder, bool whole_is_told, Clauses& clauses) {
  if (ladder.single.empty()) return;
  const Rows gains = gains_of(a, ladder);
  const Row* saver = saver_of(a, ladder);
  if (gains.empty() || gains.front()->previous.worse) {
    if (saver != nullptr) clauses.push_back({kSaving, name_in_text(saver->name) + saves(*saver)});
    if (ladder.single.size() == ladder.known.size() && ladder.skipped.empty())
      clauses.push_back({kGain, no_gain_text(a, ladder)});
    return;
  }
  const Row& best = *gains.front();
  const double gain = std::log(best.previous.speed->value);
  double possible = 0;
  for (const Row* row : ladder.all) possible += std::max(0.0, std::log(row->previous.speed->value));
  const bool faster = whole_is_told && ladder.end->base.speed->claim() && ladder.end->base.speed->value > 1;
  // The first clause is already about this stack.
  if (whole_is_told && &best == ladder.end && best.previous.variant == best.base.variant) return;
  // A rung that gains more than the total is not a part of it, because others lose the rest.
  constexpr double kAbout = 0.01;
  const double whole = faster ? std::log(ladder.end->base.speed->value) : 0;
  std::string text = name_in_text(best.name);
  if (!surely_most(ladder, best))
    text += " gives the largest certain gain";
  else if (faster && std::abs(gain - whole) <= kAbout)
    text += " brings all of it";
  else if (faster && gain >= possible / 2 && gain < whole)
    text += " brings most of it";
  else
    text += " gives the largest gain";
  text += " (" + times(*best.previous.speed) + ")";
  if (saver == &best) text += " and" + saves(best);
  clauses.push_back({kGain, text});
  if (saver != nullptr && saver != &best)
    clauses.push_back({kSaving, name_in_text(saver->name) + saves(*saver)});
}

/// The fastest stack on the base's problem, if it is certainly faster than the whole ladder; null: it is not,
/// or it is the first rung, whose gain is stated already.
const Row* fastest_of(const Analysis& a, const Ladder& ladder) {
  const Comparison& whole = ladder.end->base;
  if (!whole.speed || !whole.speed->interval) return nullptr;
  const Rows rows = select(a, [&](const Row& row) {
    return row.group == "ladder" && row.base.speed && row.base.variant == whole.variant &&
           row.base.differs.empty() && row.devices == ladder.end->devices;
  });
  if (rows.empty()) return nullptr;
  const Row& best =
      **std::ranges::max_element(rows, {}, [](const Row* row) { return row->base.speed->value; });
  const auto& interval = best.base.speed->interval;
  if (!interval || interval->low <= std::max(1.0, whole.speed->interval->high) || best.base.worse ||
      misses_loss(a, best))
    return nullptr;
  const Rows gains = gains_of(a, ladder);
  const bool told = !gains.empty() && gains.front() == &best && best.previous.variant == best.base.variant;
  return told ? nullptr : &best;
}

/// Rungs that cost speed, the largest cost first, and the memory that they save.
void add_costs(const Ladder& ladder, Clauses& clauses) {
  Rows costs = with_outcome(ladder.single, Outcome::slower);
  std::ranges::stable_sort(costs, {}, [](const Row* row) { return row->previous.speed->value; });
  for (size_t i = 0; i < std::min(costs.size(), kMostNames); ++i) {
    const Comparison& c = costs[i]->previous;
    std::string text = name_in_text(costs[i]->name) + " costs " + less(c.speed->value) + " of the speed";
    if (c.memory.value_or(1) <= 1 - kWorthNaming) text += " and saves " + less(*c.memory) + " of the memory";
    clauses.push_back({kTrade, text});
  }
  if (costs.size() > kMostNames)
    clauses.push_back(
        {kTrade, counted(std::ssize(costs) - static_cast<int64_t>(kMostNames), "more rung") + " cost speed"});
}

/// The effect of another model, function or task, the largest difference first.
void add_other_functions(const Analysis& a, const Ladder& ladder, Clauses& clauses) {
  Rows rows = those(ladder.other_problems, [&](const Row& row) {
    const Comparison& c = row.previous;
    const auto &its = a.plan(row.variant), &other = a.plan(c.variant);
    const bool told = &row == ladder.end && c.variant == row.base.variant;
    return !told && c.speed->claim() && its && other && other_function(*its, *other);
  });
  std::ranges::stable_sort(rows, std::greater(),
                           [](const Row* row) { return std::abs(std::log(row->previous.speed->value)); });
  if (rows.size() > kMostNames) rows.resize(kMostNames);
  for (const Row* row : rows) {
    const Comparison& c = row->previous;
    clauses.push_back({kOther, name_in_text(row->name) + " trains " + times(*c.speed) +
                                   " as many tokens/s as " + name_of(c) + with_memory(c.memory) + " (" +
                                   c.differs + ")"});
  }
}

void add_stack(const Analysis& a, Clauses& clauses) {
  const Ladder ladder = ladder_of(a);
  // The clause about scaling states the effect of more devices.
  const bool scales =
      ladder.end != nullptr && !a.scaling.empty() && ladder.end->devices != a.rows.front().devices;
  if (const Row* end = scales ? nullptr : ladder.end) {
    const bool alone = ladder.all.size() == 1 || !is_end_of_all(a, *end);
    std::string name = alone ? name_in_text(end->name) : "the full stack";
    // If a rung above it failed or misses the loss, its stack ends here. Rungs beside each other are not a
    // stack.
    if (alone && ladder.all.size() > 1 && std::ranges::all_of(ladder.all, [&](const Row* row) {
          return row->variant <= end->variant || misses_loss(a, *row);
        }))
      name = "the stack up to " + name_in_text(end->name);
    clauses.push_back({kWhole, stack_text(name, end->base, other_ranks(*end, *a.row(end->base.variant)))});
    if (const Row* fastest = fastest_of(a, ladder))
      clauses.push_back({kGain, "the stack up to " + name_in_text(fastest->name) + " is the fastest (" +
                                    times(*fastest->base.speed) + ")"});
  }
  if (ladder.all.size() == 1 && ladder.end != nullptr) return;  // nothing to add
  add_gain(a, ladder, ladder.end != nullptr && !scales, clauses);
  add_other_functions(a, ladder, clauses);
  add_costs(ladder, clauses);
  for (const SlowerRung& slower : slower_on_as_many_ranks(a))
    clauses.push_back({kTrade, name_in_text(slower.row->name) + " costs " + less(slower.speed.value) +
                                   " of the speed of " + name_in_text(slower.than->name)});
  const Rows undecided = with_outcome(ladder.single, Outcome::undecided);
  if (undecided.empty()) return;
  const std::string hint =
      undecided.size() == 1 ? rounds_to_decide(verdict_of(*undecided.front()->previous.speed)) : "";
  clauses.push_back(
      {kUndecided, some_names(undecided) + (undecided.size() == 1 ? " is" : " are") + " undecided" + hint});
}

void add_full_stack(const Analysis& a, Clauses& clauses) {
  for (const Row* full : select(a, [](const Row& row) { return row.group == "full"; }))
    if (misses_loss(a, *full))
      clauses.push_back({kWhole, "the full stack does not reach it"});
    else if (full->base.speed && full->base.speed->interval)
      clauses.push_back({kWhole, stack_text("the full stack", full->base, "")});
  const auto claimed = [](const AblationLine& line) { return line.in_stack && line.in_stack->claim(); };
  const auto best = std::ranges::find_if(a.ablation, claimed);
  if (best == a.ablation.end()) return;
  const std::string like = best->differs.empty() ? "" : ", not like for like";
  if (best->in_stack->value > 1)
    clauses.push_back({kGain, best->rung + " makes the largest " +
                                  (best == a.ablation.begin() ? "" : "certain ") + "contribution to it (" +
                                  times(*best->in_stack) + like + ")"});
  for (const AblationLine& line : a.ablation)
    if (claimed(line) && line.in_stack->value < 1 && line.differs.empty())
      clauses.push_back({kTrade, line.rung + " costs " + less(line.in_stack->value) + " of its speed" +
                                     (line.memory_in_stack.value_or(1) <= 1 - kWorthNaming
                                          ? " and saves " + less(*line.memory_in_stack) + " of its memory"
                                          : "")});
}

void add_ends(const Analysis& a, Clauses& clauses) {
  const Rows worse = select(a, [](const Row& row) { return row.previous.worse && row.group == "ladder"; });
  if (!worse.empty())
    clauses.push_back({kWorse, some_names(worse) + (worse.size() == 1 ? " trains" : " train") + " worse"});
  for (const Status status :
       {Status::broken, Status::oom, Status::failed, Status::crashed, Status::timeout, Status::skipped}) {
    Rows rows;
    for (const Row& row : a.rows)
      if (row.status == status && row.started) rows.push_back(&row);
    if (!rows.empty()) clauses.push_back({kFailure, some_names(rows) + " " + what_happened(status)});
  }
}

/// For example "4 ranks train 3.50x as many tokens/s as 1 rank (shard, weak scaling, 88 % efficient)".
void add_scaling_of_ranks(const Analysis& a, Clauses& clauses) {
  Sentences sentences;
  add_scaling(a, sentences);
  for (const std::string& sentence : sentences)
    clauses.push_back({kWhole, without_intervals(sentence.substr(0, sentence.find("; ")))});
}

void add(const Sentences& sentences, Clauses& clauses) {
  for (const std::string& sentence : sentences) clauses.push_back({kWhole, without_intervals(sentence)});
}
}  // namespace

std::string memory_change(const std::optional<double>& ratio) {
  if (!ratio || std::abs(*ratio - 1) < kWorthNaming) return "";
  return less(*ratio) + (*ratio < 1 ? " less" : " more") + " memory";
}

const Row* result_row(const Analysis& a) {
  if (const Row* end = ladder_of(a).end) return end;
  for (const Row* full : select(
           a, [&](const Row& row) { return row.group == "full" && row.base.speed && !misses_loss(a, row); }))
    return full;
  const Rows faster = select(a, [&](const Row& row) {
    return row.group == "grid" && is_rival(a, row) && row.base.speed && row.base.speed->claim() &&
           row.base.speed->value > 1;
  });
  if (faster.empty()) return nullptr;
  return *std::ranges::max_element(faster, {}, [](const Row* row) { return row->base.speed->value; });
}

std::string headline(const Analysis& a) {
  Clauses clauses;
  Sentences answer, rest;
  add_search(a, answer);
  add_overfit(a, answer);
  add_time_to_loss(a, answer);
  add_programs(a, answer);
  add(answer, clauses);
  if (!a.tried) add_scaling_of_ranks(a, clauses);
  if (!a.tried) {
    add_stack(a, clauses);
    add_full_stack(a, clauses);
    add_grid(a, rest);
    add(rest, clauses);
  }
  if (clauses.empty()) return without_intervals(a.findings.front());
  add_ends(a, clauses);
  // Drops the last clause of the least importance.
  while (clauses.size() > kMostClauses) {
    const auto least = std::ranges::max_element(clauses.rbegin(), clauses.rend(), {}, &Clause::rank);
    if (least->rank == kWhole) break;
    clauses.erase(std::next(least).base());
  }
  std::string text = a.missing_runs > 0 ? counted(static_cast<int64_t>(a.missing_runs), "run") +
                                              (a.missing_runs == 1 ? " has" : " have") +
                                              " no result yet; so far, on this machine"
                                        : "On this machine";
  text += " ";
  for (const Clause& clause : clauses) text += clause.text + (&clause == &clauses.back() ? "." : "; ");
  return text;
}
}  // namespace optrush
