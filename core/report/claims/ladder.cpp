// The claims on a ladder and on an ablation.
#include <algorithm>
#include <set>

#include "analysis/numbers/format.h"
#include "analysis/numbers/verdict.h"
#include "base/text.h"
#include "report/claims/claims.h"
#include "spec/spec_json.h"

namespace optrush {
namespace {
constexpr double kLargeSaving = 0.2;  ///< a smaller saving of memory does not make a stack the smallest

/// The rows of a ladder that ended well, by the available figures.
struct Ladder {
  Rows all;     ///< rows with a speed relative to the row before
  Rows known;   ///< of `all`, the rows with an interval
  Rows single;  ///< of `known`, the change of a single rung with the same problem and number of devices
  Rows joint;   ///< of `known`, the joint change of several rungs
  Rows other_problems;  ///< of `known`, other problems on the same number of devices
  Rows over_base;       ///< rows with an interval relative to the base
};

Ladder ladder_of(const Analysis& a) {
  Ladder ladder;
  ladder.all = select(a, [](const Row& row) { return row.group == "ladder" && row.previous.speed; });
  ladder.known = rows_where(ladder.all, [](const Row& row) { return is_known(row.previous); });
  ladder.over_base = rows_where(ladder.all, [](const Row& row) { return is_known(row.base); });
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
  return ladder;
}

bool is_faster(const Row& row) { return row.base.speed->claim() && row.base.speed->value > 1; }

/// The stack of the answer: the fastest one with the base's problem. If none is faster than the base, the
/// highest one, or of rungs beside each other the fastest. Null: no row may be called that.
const Row* best_of(const Analysis& a, const Ladder& ladder) {
  Rows rows = rows_where(ladder.over_base, [&](const Row& row) { return !misses_loss(a, row); });
  // The claim on scaling states the effect of more devices.
  if (!a.scaling.empty())
    rows = rows_where(rows, [&](const Row& row) { return row.devices == a.row(row.base.variant)->devices; });
  const Rows rivals = rows_where(rows, [&](const Row& row) { return is_rival(a, row); });
  const Rows faster = rows_where(rivals, is_faster);
  const auto value = [](const Row* row) { return row->base.speed->value; };
  if (!faster.empty()) return *std::ranges::max_element(faster, {}, value);
  if (rows.empty()) return nullptr;
  const bool beside = std::ranges::count_if(ladder.all, [&](const Row* row) {
                        return a.variant(row->variant).previous == row->base.variant;
                      }) > 1;
  if (!beside) return rows.back();
  return rivals.empty() ? nullptr : *std::ranges::max_element(rivals, {}, value);
}

/// The stack with the least memory, if it saves much; null: none does, or it is `best`.
const Row* smallest_of(const Analysis& a, const Row* best) {
  const Rows rows = select(a, [&](const Row& row) {
    return (row.group == "ladder" || row.group == "full") &&
           row.base.memory.value_or(1) <= 1 - kLargeSaving && !row.base.worse && !misses_loss(a, row);
  });
  if (rows.empty()) return nullptr;
  const Row* least = *std::ranges::min_element(rows, {}, [](const Row* row) { return *row->base.memory; });
  constexpr double kLess = 0.95;
  return best != nullptr && *least->base.memory > kLess * best->base.memory.value_or(1) ? nullptr : least;
}

Relation stack_relation(const Analysis& a, const Row& row) {
  Relation relation = relation_of(a, row, row.base);
  relation.name = stack_name(a, row);
  return relation;
}

/// Whether a relation may be called a gain.
bool like_for_like(const Relation& e) { return !e.worse && e.condition.empty(); }

/// "the stack up to A takes 129 MiB, 64 % less than the base, and trains 1.81x [1.72, 1.91] as fast"
std::string takes_text(const Relation& e, Form form) {
  std::string text = e.name + " takes " + bytes(*e.row->memory.allocated) + ", " + memory_change(e.memory) +
                     " than " + e.than;
  if (e.speed && (e.speed->claim() || (e.speed->interval && form == Form::finding)))
    text += ", and trains " + as_fast(e, form) + after(", ", verdict_text(*e.speed, form, e.advice));
  return text + (e.condition.empty() ? "" : " (not like for like: " + e.condition + ")");
}

/// "A (1.49x [1.35, 1.65], 54 % less memory)"
std::string with_figures(const Relation& e, Form form) {
  std::vector<std::string> figures = {speed_text(*e.speed, form), memory_change(e.memory), e.condition,
                                      e.worse ? "but it trains worse" : "",
                                      e.advice.empty() ? what_would_tell(verdict_of(*e.speed)) : e.advice};
  std::erase(figures, "");
  return e.name + " (" + join(figures) + ")";
}

/// "A (1.49x [1.35, 1.65]) and B (1.41x [1.33, 1.50]) make training faster". `most`: the first gains most.
std::string rungs_text(Outcome outcome, const Relations& relations, bool most, Form form) {
  if (form == Form::clause && most) return with_figures(relations.front(), form) + " gains most";
  const bool open = outcome == Outcome::undecided, alike = outcome == Outcome::alike,
             one = relations.size() == 1;
  double bound = 0;
  for (const Relation& e : relations)
    if (alike) bound = std::max(bound, verdict_of(*e.speed).bound);
  const auto part = [&](const Relation& e) {
    return alike || (open && form == Form::clause) ? e.name : with_figures(e, form);
  };
  const std::string names = list_text(texts_of(relations, part), form);
  if (open) return names + (one ? " is undecided" : " are undecided");
  const std::string text = names + (one ? " makes " : " make ");
  if (alike) return text + describe({Outcome::alike, bound});
  return text + (outcome == Outcome::faster ? "training faster" : "training slower") +
         (most && !one ? "; " + relations.front().name + " gains most" : "");
}

/// One claim for the rungs with this verdict, the largest gain or cost first. `all`: also rungs without an
/// interval, which may gain most.
void add_rungs(Relations relations, const Relations& all, Outcome outcome, const std::string& before,
               Weight weight, Claims& claims) {
  std::erase_if(relations, [&](const Relation& e) { return verdict_of(*e.speed).outcome != outcome; });
  if (relations.empty()) return;
  const double sign = outcome == Outcome::faster ? -1 : outcome == Outcome::slower ? 1 : 0;
  // A rung that trains worse is not better because it is fast.
  std::ranges::stable_sort(
      relations, {}, [&](const Relation& e) { return std::pair(!like_for_like(e), sign * e.speed->value); });
  const bool most = outcome == Outcome::faster && all.size() > 1 && like_for_like(relations.front()) &&
                    clearly_first(relations.front(), all);
  add_claim(claims, weight, [&](Form form) { return before + rungs_text(outcome, relations, most, form); });
}

void add_verdicts(const Relations& known, const Relations& all, const std::string& before, Weight gains,
                  Claims& claims) {
  add_rungs(known, all, Outcome::faster, before, gains, claims);
  add_rungs(known, all, Outcome::slower, before, Weight::trade, claims);
  add_rungs(known, all, Outcome::alike, before, Weight::detail, claims);
  add_rungs(known, all, Outcome::undecided, before, Weight::open, claims);
}

/// What tells more than rounds that decide on the speed; "" unless the steps differ in numbers alone.
std::string advice_on(const Analysis& a, const Row& row, const Comparison& c) {
  static const std::set<std::string> kNumbers = {
      "/rung",           "/variant",           "/train/seed",   "/train/lr",    "/train/lr_warmup",
      "/train/lr_decay", "/train/lr_steps",    "/train/lr_min", "/train/beta1", "/train/beta2",
      "/train/eps",      "/train/weight_decay"};
  const Json changes = Json::diff(to_json(a.spec(*a.row(c.variant))), to_json(a.spec(row)));
  if (row.external || !c.speed || verdict_of(*c.speed).outcome != Outcome::undecided ||
      !std::ranges::all_of(changes, [](const Json& one) { return kNumbers.contains(one.at("path")); }))
    return "";
  return std::string("the steps do equal work") +
         (a.experiment.seeds.empty() ? ", and seeds = 3 compares the losses" : "");
}
}  // namespace

Relation relation_of(const Analysis& a, const Row& row, const Comparison& c) {
  const Row* other = a.row(c.variant);
  const bool base = c.variant == 0 && c.name == "base";
  return {.name = name_in_text(row.name),
          .than = base ? "the base" : name_in_text(c.name),
          .row = &row,
          .other = other,
          .speed = c.speed,
          .memory = c.memory,
          .condition = c.differs,
          .worse = c.worse.has_value(),
          .advice = advice_on(a, row, c)};
}

bool is_rival(const Analysis& a, const Row& row) {
  return row.base.differs.empty() && !row.base.worse && !misses_loss(a, row);
}

bool clearly_first(const Relation& one, const Relations& all) {
  const auto& first = one.speed->interval;
  return first && std::ranges::all_of(all, [&](const Relation& other) {
           return other.name == one.name || !like_for_like(other) ||
                  (other.speed->interval && other.speed->interval->high < first->low);
         });
}

std::string stack_name(const Analysis& a, const Row& row) {
  if (row.group == "full") return "the full stack";
  if (row.group != "ladder" || a.variant(row.variant).previous == row.base.variant)
    return name_in_text(row.name);
  return "the stack up to " + name_in_text(row.name);
}

void add_ladder(const Analysis& a, Claims& claims) {
  const Ladder ladder = ladder_of(a);
  const Row* best = best_of(a, ladder);
  // What another model costs is the question of an experiment that starts with it.
  const auto adds_other = [&](bool models) {
    for (const Row* row : ladder.other_problems) {
      const Comparison& c = row->previous;
      const auto &its = a.plan(row->variant), &other = a.plan(c.variant);
      const bool model = c.speed->claim() && its && other && its->model != other->model;
      const bool stated = row == best && c.variant == row->base.variant;
      if (model != models || stated) continue;
      const bool function = c.speed->claim() && its && other && other_function(*its, *other);
      const Weight weight = model ? Weight::answer : function ? Weight::other : Weight::detail;
      add_trains(claims, weight, relation_of(a, *row, c));
    }
  };
  adds_other(true);
  if (best != nullptr)
    add_trains(claims, Weight::answer, stack_relation(a, *best), best->tokens_per_second.has_value());
  if (const Row* least = smallest_of(a, best))
    add_claim(claims, Weight::answer, [&](Form form) {
      return takes_text(stack_relation(a, *least), form);
    }).aside = true;
  Relations single, all;
  for (const Row* row : ladder.all) {
    const Relation relation = relation_of(a, *row, row->previous);
    if (misses_loss(a, *row) && verdict_of(*relation.speed).outcome == Outcome::faster) continue;
    all.push_back(relation);
    if (std::ranges::count(ladder.single, row) > 0) single.push_back(relation);
  }
  // The claim on the best stack states the rung of a stack that has only one.
  const bool one_rung = best != nullptr && best->previous.variant == best->base.variant;
  const bool stated = one_rung && ladder.known.size() == 1;
  const auto faster = [](const Relation& e) { return verdict_of(*e.speed).outcome == Outcome::faster; };
  if (!stated && !single.empty() && std::ranges::none_of(single, faster) &&
      ladder.single.size() == ladder.known.size() && ladder.over_base.size() == ladder.known.size())
    add_text(claims, Weight::gain, "no rung is shown to make training faster");
  const bool only_gain = one_rung && std::ranges::count(ladder.single, best) > 0 && is_faster(*best) &&
                         std::ranges::count_if(single, faster) == 1;
  if (!stated) add_verdicts(single, all, "", only_gain ? Weight::detail : Weight::gain, claims);
  for (const Row* row : ladder.joint) {
    if (row == best && row->previous.variant == row->base.variant) continue;
    Relation relation = relation_of(a, *row, row->previous);
    relation.name += ", together with " + listed_names(row->previous.between) + ",";
    add_trains(claims, Weight::detail, relation);
  }
  adds_other(false);
  // If the previous rung was left out, a rung has common rounds only with the base.
  for (const Row* row : ladder.over_base)
    if (!is_known(row->previous) && row != best) add_trains(claims, Weight::detail, stack_relation(a, *row));
}

void add_ablation(const Analysis& a, Claims& claims) {
  for (const Row* full : select(a, [](const Row& row) { return row.group == "full"; })) {
    if (!is_known(full->base)) continue;
    add_trains(claims, Weight::answer, stack_relation(a, *full), full->tokens_per_second.has_value(),
               misses_loss(a, *full) ? ", but does not reach the loss" : "");
  }
  Relations known, all;
  for (const AblationLine& line : a.ablation) {
    if (!line.in_stack) continue;
    all.push_back({.name = name_in_text(line.rung),
                   .than = "the stack without it",
                   .speed = line.in_stack,
                   .memory = line.memory_in_stack,
                   .condition = line.differs});
    if (line.in_stack->interval) known.push_back(all.back());
  }
  add_verdicts(known, all, "in the full stack ", Weight::gain, claims);
}

const Row* result_row(const Analysis& a) {
  for (const Claim& claim : claims_of(a))
    if (claim.result != nullptr) return claim.result;
  return nullptr;
}
}  // namespace optrush
