#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <vector>

#include "base/suggest.h"
#include "report/analysis.h"
#include "report/format.h"
#include "report/problem.h"
#include "report/verdict.h"

namespace optrush {
namespace {
constexpr double kWorthNaming = 0.05;  ///< a change of memory below this is no trade

std::string interval_text(const Ratio& ratio) {
  return "[" + fixed(ratio.interval->low, 2) + ", " + fixed(ratio.interval->high, 2) + "]";
}

/// "2.07x [1.98, 2.16]" with the remark that the batch differs, where it does.
std::string speedup(const Comparison& c) {
  return fixed(c.speed->value, 2) + "x " + interval_text(*c.speed) +
         (c.differs.empty() ? "" : " in tokens/s");
}

std::string memory_against(const Row& row, const Row& other) {
  return bytes(*row.memory.allocated) + " instead of " + bytes(*other.memory.allocated);
}

std::string ranks_text(int64_t ranks) { return std::to_string(ranks) + (ranks == 1 ? " rank" : " ranks"); }

using Rows = std::vector<const Row*>;

Rows select(const Analysis& a, auto&& wanted) {
  Rows rows;
  for (const Row& row : a.rows)
    if (row.ok() && wanted(row)) rows.push_back(&row);
  return rows;
}

/// What a rung does to the speed, with its interval; in words where it trains worse for that.
std::string effect_text(const Row& row) {
  std::string text =
      row.name + " (" + fixed(row.previous.speed->value, 2) + "x " + interval_text(*row.previous.speed);
  if (row.previous.worse) text += ", but it trains worse";
  return text + ")";
}

std::string names_text(const Rows& rows, auto&& text_of) {
  std::vector<std::string> texts;
  for (const Row* row : rows) texts.push_back(text_of(*row));
  return join(texts);
}

Rows with_outcome(const Rows& rows, Outcome outcome) {
  Rows chosen = rows;
  std::erase_if(chosen, [&](const Row* row) { return verdict_of(*row->previous.speed).outcome != outcome; });
  return chosen;
}

const char* s_of_verb(const Rows& rows) { return rows.size() == 1 ? "s" : ""; }

/// `alone`: no rung of the ladder is another problem, of which something else is told.
void add_gains(const Rows& ladder, bool alone, std::vector<std::string>& parts) {
  Rows gains = with_outcome(ladder, Outcome::faster);
  // What trains worse is no better for being fast.
  std::ranges::stable_sort(gains, [](const Row* a, const Row* b) {
    if (a->previous.worse.has_value() != b->previous.worse.has_value()) return !a->previous.worse;
    return a->previous.speed->value > b->previous.speed->value;
  });
  if (gains.empty() || gains.front()->previous.worse) {
    if (alone)
      parts.push_back(std::string("no rung is shown to make training faster") +
                      (gains.empty() ? "" : " without training worse"));
  } else {
    parts.push_back(gains.front()->name + " pays most: " + speedup(gains.front()->previous) +
                    " over the rung before it");
    gains.erase(gains.begin());
  }
  if (gains.empty()) return;
  const bool worse = gains.front()->previous.worse.has_value();
  parts.push_back(names_text(gains, effect_text) + (worse
                                                        ? std::string(" train") + s_of_verb(gains) + " faster"
                                                        : std::string(" pay") + s_of_verb(gains) + ", too"));
}

void add_no_gains(const Rows& ladder, std::vector<std::string>& parts) {
  if (const Rows alike = with_outcome(ladder, Outcome::alike); !alike.empty()) {
    double bound = 0;
    for (const Row* row : alike) bound = std::max(bound, verdict_of(*row->previous.speed).bound);
    parts.push_back(names_text(alike, [](const Row& row) { return row.name; }) + " make" + s_of_verb(alike) +
                    " " + describe({Outcome::alike, bound}));
  }
  const Rows unclear = with_outcome(ladder, Outcome::undecided);
  if (unclear.empty()) return;
  parts.push_back("of " +
                  names_text(unclear,
                             [](const Row& row) {
                               const auto more = verdict_of(*row.previous.speed).more;
                               return row.name + " (" + fixed(row.previous.speed->value, 2) + "x " +
                                      interval_text(*row.previous.speed) + ", " +
                                      (more ? "about " + std::to_string(*more) : "over 1,000") +
                                      " more rounds)";
                             }) +
                  " it can't be told");
}

/// Another problem's tokens a second are no gain of speed.
void add_other_problems(const Rows& ladder, std::vector<std::string>& parts) {
  for (const Row* row : ladder) {
    const Ratio& speed = *row->previous.speed;
    if (row->previous.differs.empty() || !speed.claim()) continue;
    parts.push_back(row->name + " makes " + fixed(speed.value, 2) + "x " + interval_text(speed) +
                    " of the tokens a second, of another problem (" + row->previous.differs + ")");
  }
}

/// Fast or not: what a rung does to training. Of grids and ablations against the base.
void add_quality(const Analysis& a, std::vector<std::string>& parts) {
  // Than whom, by which loss, and what that one's is.
  std::map<std::tuple<std::string, bool, std::string>, Rows> worse;
  for (const Row& row : a.rows)
    if (row.ok() && row.previous.worse) {
      const Worse& found = *row.previous.worse;
      worse[{row.previous.name, found.validated, fixed(found.other, 3)}].push_back(&row);
    }
  for (const auto& [than, rows] : worse) {
    const auto& [name, validated, other] = than;
    const auto loss_of = [](const Row& row) { return fixed(row.previous.worse->loss, 3); };
    const std::string loss = validated ? " validation loss" : " training loss";
    if (rows.size() == 1)
      parts.push_back(rows.front()->name + " trains worse than " + name +
                      ": over the last third of equally many tokens its mean" + loss + " is " +
                      loss_of(*rows.front()) + " instead of " + other);
    else
      parts.push_back(names_text(rows, [&](const Row& row) { return row.name + " (" + loss_of(row) + ")"; }) +
                      " train worse than " + name + " (" + other + "), by the mean" + loss +
                      " over the last third of equally many tokens");
  }
}

/// May be called the fastest: it solves the base's problem, and as well.
bool is_rival(const Row& row) { return row.base.differs.empty() && !row.base.worse; }

/// Whether some rung stands on another one than the last rung of the host before it.
bool has_branches(const Analysis& a) {
  int64_t before = 0;
  for (const Variant& variant : a.variants) {
    if (variant.group != "ladder") continue;
    if (variant.previous != before) return true;
    before = variant.index;
  }
  return false;
}

/// Where a ladder ends: at its last rung, or at the fastest where it has branches.
const Row& end_of(const Analysis& a, const Rows& ladder) {
  if (!has_branches(a)) return *ladder.back();
  const auto speed = [](const Row* row) {
    return row->base.speed && is_rival(*row) ? row->base.speed->value : 0;
  };
  return **std::ranges::max_element(ladder, {}, speed);
}

std::string whole_ladder(const Analysis& a, const Row& last) {
  const Ratio& speed = *last.base.speed;
  std::string text = "the whole ladder ";
  if (has_branches(a) || (last.variant != a.rows.back().variant && a.rows.back().group == "ladder"))
    text = "the ladder up to " + last.name + " ";
  const std::string times = fixed(speed.value, 2) + "x " + interval_text(speed);
  const Row& base = a.rows[static_cast<size_t>(last.base.variant)];
  if (!speed.claim())
    text += "shows no certain change of the speed (" + times + ", " + describe(verdict_of(speed)) + ")";
  else if (last.base.differs.empty())
    text += "makes training " + times + (speed.value > 1 ? " faster" : " as fast");
  else
    text += "trains " + times + " as many tokens a second";
  if (last.devices != base.devices)
    text += " on " + ranks_text(last.devices) + " instead of " + std::to_string(base.devices);
  if (const double memory = last.base.memory.value_or(1); std::abs(memory - 1) >= kWorthNaming)
    text += std::string(" and takes ") + percent(std::abs(memory - 1), 0) + (memory < 1 ? " less" : " more") +
            " memory (" + memory_against(last, base) + ")";
  if (last.base.worse && !last.previous.worse) text += ", but trains worse than " + last.base.name;
  return text;
}

/// Rungs that cost speed, and the memory that it buys.
void add_trades(const Analysis& a, const Rows& ladder, std::vector<std::string>& parts) {
  for (const Row* row : ladder) {
    const Comparison& c = row->previous;
    if (!c.speed->claim() || c.speed->value >= 1) continue;
    std::string text = row->name + " costs " + percent(1 - c.speed->value, 0) + " of the speed";
    if (c.memory.value_or(1) <= 1 - kWorthNaming)
      text += " for " + percent(1 - *c.memory, 0) + " less memory (" +
              memory_against(*row, *a.row(c.variant)) + ")";
    parts.push_back(text);
  }
}

void add_ladder(const Analysis& a, std::vector<std::string>& parts) {
  const Rows ladder = select(a, [](const Row& row) {
    return row.group == "ladder" && row.previous.speed && row.previous.speed->interval;
  });
  if (ladder.empty()) return;
  // What more devices add is another question, and so is another problem.
  Rows same = ladder;
  std::erase_if(same, [&](const Row* row) {
    return row->devices != a.row(row->previous.variant)->devices || !row->previous.differs.empty();
  });
  if (!same.empty()) add_gains(same, same.size() == ladder.size(), parts);
  if (const Row& last = end_of(a, ladder); last.base.speed && last.base.speed->interval)
    parts.push_back(whole_ladder(a, last));
  add_trades(a, same, parts);
  add_no_gains(same, parts);
  Rows others = ladder;
  std::erase_if(others,
                [&](const Row* row) { return row->devices != a.row(row->previous.variant)->devices; });
  add_other_problems(others, parts);
}

void add_ablation(const Analysis& a, std::vector<std::string>& parts) {
  for (const Row* full : select(a, [](const Row& row) { return row.group == "full"; }))
    if (full->base.speed && full->base.speed->claim())
      parts.push_back("the full stack trains " + speedup(full->base) + " as fast as the base");
  const auto claims = [](const AblationLine& line) { return line.in_stack && line.in_stack->claim(); };
  const auto best = std::ranges::find_if(a.ablation, claims);
  if (best != a.ablation.end() && best->in_stack->value > 1)
    parts.push_back("in the full stack " + best->rung + " is worth most: " + fixed(best->in_stack->value, 2) +
                    "x " + interval_text(*best->in_stack));
  else if (std::ranges::any_of(
               a.ablation, [](const AblationLine& line) { return line.in_stack && line.in_stack->interval; }))
    parts.emplace_back("in the full stack no rung is shown to be worth anything");
}

void add_grid(const Analysis& a, std::vector<std::string>& parts) {
  const Rows grid = select(
      a, [](const Row& row) { return row.group == "grid" && row.base.speed && row.base.speed->interval; });
  if (grid.empty()) return;
  Rows rivals = grid;
  std::erase_if(rivals, [](const Row* row) { return !is_rival(*row); });
  if (rivals.empty()) {
    parts.emplace_back("no combination solves the base's problem as well, so none is called the fastest");
    return;
  }
  const Row& best =
      **std::ranges::max_element(rivals, {}, [](const Row* row) { return row->base.speed->value; });
  // Who asks for a loss is not told of a speed that can't be told.
  if (a.experiment.target_loss > 0 && !best.base.speed->claim()) return;
  const std::string which = rivals.size() == grid.size() ? "" : "with the base's problem ";
  const std::string said =
      best.base.speed->value < 1
          ? "no combination " + which + "is faster than the base; next comes " + best.name + ": "
          : "of the combinations " + which + best.name + " is fastest: ";
  parts.push_back(said + speedup(best.base) + " over the base" +
                  (best.base.speed->claim() ? "" : ", " + describe(verdict_of(*best.base.speed))));
}

/// The series of each kind that gains most, and how much of its step waits for other ranks.
void add_scaling(const Analysis& a, std::vector<std::string>& parts) {
  for (const Scaling kind : {Scaling::weak, Scaling::strong}) {
    std::vector<const ScalingSeries*> claimed;
    for (const auto& series : a.scaling)
      if (series.kind == kind && series.largest().speedup->interval) claimed.push_back(&series);
    if (claimed.empty()) continue;
    const ScalingSeries& best = **std::ranges::max_element(
        claimed, {}, [](const ScalingSeries* series) { return series->largest().speedup->value; });
    const ScalingPoint &from = best.points.front(), &to = best.largest();
    const Row& row = *a.row(to.variant);
    std::string text = best.name + " makes " + fixed(to.speedup->value, 2) + "x " +
                       interval_text(*to.speedup) + " of the tokens a second of " + ranks_text(from.ranks) +
                       " on " + std::to_string(to.ranks) + " (" + std::string(to_string(kind)) +
                       " scaling, " + percent(to.efficiency, 0) + " efficient)";
    if (row.exposed_seconds && row.step_seconds.value_or(0) > 0)
      text += ", with " + percent(*row.exposed_seconds / *row.step_seconds, 0) +
              " of a step in exposed communication";
    parts.push_back(text);
  }
}

/// The fastest of the other programs: who beats that one beats them all.
void add_programs(const Analysis& a, std::vector<std::string>& parts) {
  if (a.programs.empty()) return;
  const OtherProgram& best = a.programs.front();
  if (!best.comparison.speed || !best.comparison.speed->interval) return;
  parts.push_back(
      a.row(best.fastest)->name + " trains " + speedup(best.comparison) + " as fast as " +
      best.comparison.name + ", the fastest other program" +
      (best.comparison.speed->claim() ? "" : ", " + describe(verdict_of(*best.comparison.speed))));
}

std::string needs(const Row& row) {
  return std::to_string(*row.time_to_loss->steps) + " steps and " + duration(*row.time_to_loss->seconds);
}

/// "'lr 1e-3' ends at 2.41": of rows that are not there, the one that came nearest.
std::string nearest_text(const Rows& rows) {
  const Row& nearest =
      **std::ranges::min_element(rows, {}, [](const Row* row) { return row->time_to_loss->last; });
  return nearest.name + " ends at " + fixed(nearest.time_to_loss->last, 3);
}

/// Who has the loss down to the target soonest, who comes next, and how near the others came: runs of the
/// base's task whose losses are of one kind. Where all take equally many steps, other parts tell of speeds.
void add_time_to_loss(const Analysis& a, std::vector<std::string>& parts) {
  Rows rows = select(a, [&](const Row& row) {
    const auto& there = row.time_to_loss;
    return there && there->validated == a.rows.front().time_to_loss->validated && row.same_as < 0 &&
           same_task(a.variants[static_cast<size_t>(row.variant)].spec, a.variants.front().spec);
  });
  Rows others = rows;
  std::erase_if(rows, [](const Row* row) { return !row->time_to_loss->seconds; });
  std::erase_if(others, [](const Row* row) { return row->time_to_loss->seconds.has_value(); });
  const std::string target = "a loss of " + exact_number(a.experiment.target_loss);
  if (rows.empty()) {
    if (!others.empty())
      parts.push_back("no rung reaches " + target + ": " + nearest_text(others) +
                      ", nearest of all; train for more steps, or ask for a target_loss that is reached");
    return;
  }
  const auto seconds = [](const Row* row) { return *row->time_to_loss->seconds; };
  const Row& first = **std::ranges::min_element(rows, {}, seconds);
  const bool alone = rows.size() == 1;
  std::erase_if(rows, [&](const Row* row) { return row->time_to_loss->steps == first.time_to_loss->steps; });
  if (rows.empty() && others.empty()) return;
  std::string text = alone && !others.empty() ? "only " + first.name + " reaches " + target
                                              : first.name + " is at " + target + " soonest";
  text += ", after " + needs(first);
  if (!rows.empty()) {
    const Row& next = **std::ranges::min_element(rows, {}, seconds);
    text += ", next " + next.name + ", after " + needs(next);
    const double apart = std::max(first.time_to_loss->since_before, next.time_to_loss->since_before);
    if (seconds(&next) - seconds(&first) < apart)
      text += ", a difference below the " + duration(apart) + " between two of the losses";
  }
  if (!others.empty())
    text += "; " +
            (others.size() == 1 ? "" : std::to_string(others.size()) + " rungs do not reach it, of which ") +
            nearest_text(others) + (others.size() == 1 ? " and does not reach it" : "");
  parts.push_back(text + " (of the seconds no claim is made)");
}

std::string what_happened(Status status) {
  switch (status) {
    case Status::oom:
      return "ran out of memory";
    case Status::crashed:
      return "crashed";
    case Status::timeout:
      return "did not end in time";
    case Status::broken:
      return "broke the correctness gate";
    case Status::skipped:
      return "did not run";
    default:
      return "failed";
  }
}

void add_failures(const Analysis& a, std::vector<std::string>& parts) {
  for (const Status status :
       {Status::broken, Status::oom, Status::crashed, Status::timeout, Status::failed, Status::skipped}) {
    std::vector<std::string> names;
    for (const Row& row : a.rows)
      if (row.status == status && row.started) names.push_back(row.name);
    if (!names.empty()) parts.push_back(join(names) + " " + what_happened(status));
  }
}

/// Nothing can be claimed: the medians are all that can be said.
void add_medians(const Analysis& a, std::vector<std::string>& parts) {
  const Rows rows = select(a, [](const Row& row) { return row.tokens_per_second.has_value(); });
  if (rows.empty()) return;
  const auto speed = [](const Row* row) { return *row->tokens_per_second; };
  if (rows.size() == 1) {
    parts.push_back("only " + rows.front()->name + " ended well, so there is nothing to compare; it trains " +
                    grouped(speed(rows.front())) + " tokens/s");
    return;
  }
  const bool few = std::ranges::all_of(rows, [](const Row* row) { return row->rounds.size() < kMinRounds; });
  const std::string more = a.experiment.until ? "--resume --at-most with a longer time"
                                              : "--resume --rounds " + std::to_string(kMinRounds);
  std::string text = few ? "fewer than " + std::to_string(kMinRounds) + " rounds, so no claim is made (" +
                               more + " adds some)"
                         : "no two rungs that ended well have " + std::to_string(kMinRounds) +
                               " rounds in common, so no claim is made";
  Rows rivals = rows;
  std::erase_if(rivals, [](const Row* row) { return !is_rival(*row); });
  if (rivals.size() > 1) {
    const Row* fastest = *std::ranges::max_element(rivals, {}, speed);
    text += "; the fastest median is " + grouped(speed(fastest)) + " tokens/s (" + fastest->name + ")";
  }
  parts.push_back(text);
}
}  // namespace

std::vector<std::string> findings(const Analysis& a) {
  std::vector<std::string> parts;
  if (!a.rows.empty() && a.rows.front().time_to_loss) add_time_to_loss(a, parts);
  add_ladder(a, parts);
  add_ablation(a, parts);
  add_grid(a, parts);
  add_scaling(a, parts);
  add_programs(a, parts);
  if (parts.empty()) add_medians(a, parts);
  add_quality(a, parts);
  add_failures(a, parts);
  if (parts.empty()) parts.emplace_back("nothing was measured");
  if (a.missing_runs > 0)
    parts.front() = std::to_string(a.missing_runs) + " runs have no result yet; so far: " + parts.front();
  for (std::string& part : parts) part += ".";
  return parts;
}

std::string finding_text(const Analysis& a) { return join(a.findings, " "); }
}  // namespace optrush
