#include <algorithm>
#include <cmath>
#include <set>

#include "report/analysis/finding_parts.h"
#include "report/numbers/format.h"
#include "report/numbers/verdict.h"

namespace optrush {
Rows with_outcome(const Rows& rows, Outcome outcome) {
  return those(rows, [&](const Row& row) { return verdict_of(*row.previous.speed).outcome == outcome; });
}

namespace {
constexpr double kSmall = 0.02;  ///< a smaller change of speed is stated with a decimal

std::string memory_against(const Row& row, const Row& other) {
  return bytes(*row.memory.allocated) + " instead of " + bytes(*other.memory.allocated);
}

/// The effect of a rung on speed with its interval; in words if it trains worse.
std::string effect_text(const Row& row) {
  std::string text = name_in_text(row.name) + " (" + interval_text(*row.previous.speed);
  if (row.previous.worse) text += ", but it trains worse";
  return text + ")";
}

const char* s_of_verb(const Rows& rows) { return rows.size() == 1 ? "s" : ""; }

void add_gains(const Analysis& a, const Ladder& ladder, Sentences& parts) {
  Rows gains = gains_of(a, ladder);
  if (gains.empty() || gains.front()->previous.worse) {
    // There are no other rungs to mention.
    if (ladder.single.size() == ladder.known.size() && ladder.skipped.empty())
      parts.push_back(no_gain_text(a, ladder));
  } else {
    const Row& best = *gains.front();
    parts.push_back(
        name_in_text(best.name) +
        (surely_most(ladder, best) ? " gives the largest gain: " : " gives the largest certain gain: ") +
        speedup(best.previous, best.previous.name));
    gains.erase(gains.begin());
  }
  if (gains.empty()) return;
  const bool worse = gains.front()->previous.worse.has_value();
  parts.push_back(names_text(gains, effect_text) + " make" + s_of_verb(gains) + " training faster" +
                  (worse ? "" : ", too"));
}

void add_no_gains(const Rows& ladder, Sentences& parts) {
  if (const Rows alike = with_outcome(ladder, Outcome::alike); !alike.empty()) {
    double bound = 0;
    for (const Row* row : alike) bound = std::max(bound, verdict_of(*row->previous.speed).bound);
    parts.push_back(names_text(alike, [](const Row& row) { return name_in_text(row.name); }) + " make" +
                    s_of_verb(alike) + " " + describe({Outcome::alike, bound}));
  }
  // For example "A (1.02x [0.98, 1.06]): undecided; about 7 more rounds would decide it".
  for (const Row* row : with_outcome(ladder, Outcome::undecided))
    parts.push_back(name_in_text(row->name) + " (" + interval_text(*row->previous.speed) +
                    "): " + describe(verdict_of(*row->previous.speed)));
}

/// The joint effect of rungs whose neighbours below have no figures.
void add_joint(const Rows& ladder, Sentences& parts) {
  for (const Row* row : ladder) {
    const Comparison& c = row->previous;
    parts.push_back(name_in_text(row->name) + ", together with " + listed_names(c.between) + ", trains " +
                    interval_text(*c.speed) + " as fast as " + name_in_text(c.name) +
                    unless_claimed(*c.speed));
  }
}

/// Tokens per second of another problem are not a gain of speed.
void add_other_problems(const Rows& ladder, Sentences& parts) {
  for (const Row* row : ladder) {
    const Ratio& speed = *row->previous.speed;
    if (!speed.claim()) continue;
    parts.push_back(name_in_text(row->name) + " trains " + interval_text(speed) + " as many tokens/s as " +
                    name_in_text(row->previous.name) + ", on another problem (" + row->previous.differs +
                    ")");
  }
}

/// Rungs that could not be stacked, so the rungs above build on the one below.
std::set<std::string> refused_rungs(const Analysis& a) {
  std::set<std::string> names;
  for (const Variant& variant : a.variants)
    names.insert(variant.passed_over.begin(), variant.passed_over.end());
  return names;
}

/// Whether a rung builds on another rung than the last one before it that could be stacked.
bool has_branches(const Analysis& a) {
  const std::set<std::string> refused = refused_rungs(a);
  int64_t before = 0;
  for (const Variant& variant : a.variants) {
    if (variant.group != "ladder") continue;
    if (variant.previous != before) return true;
    if (!refused.contains(variant.name)) before = variant.index;
  }
  return false;
}

/// The end of a ladder: the last rung that reaches the loss or, if there are branches, the fastest; none if
/// no rung can be called that.
const Row* end_of(const Analysis& a, const Rows& ladder) {
  Rows rivals = those(ladder, [&](const Row& row) { return !misses_loss(a, row); });
  if (rivals.empty() || !has_branches(a)) return rivals.empty() ? nullptr : rivals.back();
  rivals = those(rivals, [&](const Row& row) { return is_rival(a, row); });
  if (rivals.empty()) return nullptr;
  return *std::ranges::max_element(rivals, {}, [](const Row* row) { return row->base.speed->value; });
}

/// The last variant of the ladder, even if it failed.
int64_t last_variant(const Analysis& a) {
  int64_t last = 0;
  for (const Row& row : a.rows)
    if (row.group == "ladder") last = row.variant;
  return last;
}

std::string whole_ladder(const Analysis& a, const Row& last) {
  const Ratio& speed = *last.base.speed;
  std::string text = "the whole ladder ";
  if (has_branches(a) || last.variant != last_variant(a))
    text = "the ladder up to " + name_in_text(last.name) + " ";
  const Row& base = *a.row(last.base.variant);
  if (!speed.claim())
    text += "shows no certain change of speed (" + interval_text(speed) + ", " + describe(verdict_of(speed)) +
            ")";
  else
    text += "trains " + speedup(last.base, base.name);
  text += other_ranks(last, base);
  if (const double memory = last.base.memory.value_or(1); std::abs(memory - 1) >= kWorthNaming)
    text += std::string(" and takes ") + percent(std::abs(memory - 1), 0) + (memory < 1 ? " less" : " more") +
            " peak memory (" + memory_against(last, base) + ")";
  if (last.base.worse && !last.previous.worse)
    text += ", but trains worse than " + name_in_text(last.base.name);
  if (base.variant != 0)
    text += "; it is compared with " + name_in_text(base.name) + ", because the base has no result";
  return text;
}

/// Rungs that cost speed and the memory that they save.
void add_trades(const Analysis& a, const Rows& ladder, Sentences& parts) {
  for (const Row* row : ladder) {
    const Comparison& c = row->previous;
    if (!c.speed->claim() || c.speed->value >= 1) continue;
    const double cost = 1 - c.speed->value;
    std::string text =
        name_in_text(row->name) + " costs " + percent(cost, cost < kSmall ? 1 : 0) + " of the speed";
    if (c.memory.value_or(1) <= 1 - kWorthNaming)
      text += " and saves " + percent(1 - *c.memory, 0) + " of the peak memory (" +
              memory_against(*row, *a.row(c.variant)) + ")";
    parts.push_back(text);
  }
}
}  // namespace

Ladder ladder_of(const Analysis& a) {
  Ladder ladder;
  ladder.all = select(a, [](const Row& row) { return row.group == "ladder" && row.previous.speed; });
  const auto has_interval = [](const Row& row) { return row.previous.speed->interval.has_value(); };
  ladder.known = those(ladder.all, has_interval);
  const Rows to_base =
      those(ladder.all, [](const Row& row) { return row.base.speed && row.base.speed->interval; });
  // More devices and other problems are separate questions, and the joint effect of several rungs can't rank
  // one of them.
  for (const Row* row : ladder.known) {
    const Comparison& c = row->previous;
    if (row->devices != a.row(c.variant)->devices) continue;
    if (!c.differs.empty())
      ladder.other_problems.push_back(row);
    else
      (c.between.empty() ? ladder.single : ladder.joint).push_back(row);
  }
  // If the previous rung was left out, a rung has common rounds only with the base.
  ladder.skipped = those(to_base, [&](const Row& row) { return !has_interval(row); });
  ladder.end = end_of(a, to_base);
  return ladder;
}

bool is_end_of_all(const Analysis& a, const Row& row) {
  return !has_branches(a) && row.variant == last_variant(a);
}

Rows gains_of(const Analysis& a, const Ladder& ladder) {
  Rows gains = those(with_outcome(ladder.single, Outcome::faster),
                     [&](const Row& row) { return !misses_loss(a, row); });
  // A rung that trains worse is not better because it is fast.
  std::ranges::stable_sort(gains, [](const Row* a, const Row* b) {
    if (a->previous.worse.has_value() != b->previous.worse.has_value()) return !a->previous.worse;
    return a->previous.speed->value > b->previous.speed->value;
  });
  return gains;
}

std::string no_gain_text(const Analysis& a, const Ladder& ladder) {
  const Rows faster = with_outcome(ladder.single, Outcome::faster);
  const bool worse =
      std::ranges::any_of(faster, [](const Row* row) { return row->previous.worse.has_value(); });
  const bool misses = std::ranges::any_of(faster, [&](const Row* row) { return misses_loss(a, *row); });
  return std::string("no rung is shown to make training faster") + (worse ? " without training worse" : "") +
         (misses ? " and to reach the loss" : "");
}

bool surely_most(const Ladder& ladder, const Row& best) {
  return std::ranges::none_of(ladder.all, [&](const Row* row) {
    const Comparison& c = row->previous;
    return c.speed && !c.speed->claim() && c.speed->value > best.previous.speed->value && !c.worse &&
           c.differs.empty();
  });
}

void add_ladder(const Analysis& a, Sentences& parts) {
  const Ladder ladder = ladder_of(a);
  if (ladder.known.empty() && ladder.end == nullptr && ladder.skipped.empty()) return;
  Rows joint = ladder.joint, skipped = ladder.skipped;
  if (!ladder.single.empty()) add_gains(a, ladder, parts);
  if (const Row* last = ladder.end) {
    parts.push_back(whole_ladder(a, *last));
    // it would repeat the same comparison
    if (last->previous.variant == last->base.variant) std::erase(joint, last);
    std::erase(skipped, last);
  }
  for (const Row* row : skipped)
    parts.push_back("the stack up to " + name_in_text(row->name) + " trains " +
                    speedup(row->base, row->base.name) + other_ranks(*row, *a.row(row->base.variant)) +
                    unless_claimed(*row->base.speed));
  add_trades(a, ladder.single, parts);
  add_no_gains(ladder.single, parts);
  add_joint(joint, parts);
  add_other_problems(ladder.other_problems, parts);
}
}  // namespace optrush
