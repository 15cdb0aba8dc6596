// The claims of experiments with another question than the speed of a ladder.
#include <algorithm>

#include "analysis/grid.h"
#include "analysis/numbers/format.h"
#include "analysis/quantities.h"
#include "base/text.h"
#include "report/claims/claims.h"

namespace optrush {
namespace {
/// "all 8 stacks learn one batch: the last training loss is at most 0.0006 (required: below 0.1)"
void add_overfit(const Analysis& a, Claims& claims) {
  double below = 0;
  Numbers learned, failed;         // last losses
  for (const Row& row : a.rows) {  // a row that did not learn the batch has not ended well
    if (!row.overfit || row.same_as >= 0) continue;
    below = row.overfit->required;
    (row.overfit->learned() ? learned : failed).emplace_back(name_in_text(row.name), row.overfit->last);
  }
  if (below <= 0) return;
  const std::string required = " (required: below " + exact_number(below) + ")";
  const size_t all = learned.size() + failed.size();
  if (!failed.empty()) {
    add_claim(claims, Weight::answer, [&](Form form) {
      return std::to_string(failed.size()) + " of " + counted(all, "stack") +
             (failed.size() == 1 ? " does" : " do") + " not learn one batch: the last training loss is " +
             list_text(failed, 4, form) + required;
    });
    return;
  }
  const auto worst = std::ranges::max_element(learned, {}, &Numbers::value_type::second);
  add_text(claims, Weight::answer,
           (all == 1 ? worst->first + " learns" : "all " + std::to_string(all) + " stacks learn") +
               " one batch: the last training loss is at most " + fixed(worst->second, 4) + required);
}

/// Which rungs reach the target loss, of the base's task with the same kind of loss. If all take the same
/// number of steps, the claims on speed are enough. "A (12.0 s, 80 steps) and B (20.0 s, 100 steps) reach a
/// training loss of 2.5; not in every round: C (2.900)"; "A reaches it 1.05x [1.02, 1.08] as soon as base".
void add_time_to_loss(const Analysis& a, Claims& claims) {
  const auto first =
      std::ranges::find_if(a.rows, [](const Row& row) { return row.time_to_loss.has_value(); });
  if (first == a.rows.end()) return;
  const std::string loss = loss_name(first->time_to_loss->validated),
                    target = "a " + loss + " of " + exact_number(a.experiment.target_loss);
  Rows there;
  Numbers others;
  bool any = false, in_some_rounds = false;
  for (const Row* row : select(a, [&](const Row& row) {
         return row.time_to_loss && row.time_to_loss->validated == first->time_to_loss->validated &&
                row.same_as < 0 && same_task(a.spec(row), a.variants.front().spec);
       })) {
    any = true;
    if (!row->time_to_loss->enough_steps) continue;
    in_some_rounds |= row->time_to_loss->in_some_rounds;
    if (row->time_to_loss->seconds)
      there.push_back(row);
    else
      others.emplace_back(name_in_text(row->name), row->time_to_loss->last);
  }
  std::ranges::stable_sort(there, {}, [](const Row* row) { return *row->time_to_loss->seconds; });
  std::ranges::stable_sort(others, {}, &Numbers::value_type::second);
  const bool equal = std::ranges::all_of(
      there, [&](const Row* row) { return row->time_to_loss->steps == there.front()->time_to_loss->steps; });
  if (!equal)
    for (const Row* row : there)
      if (const auto& soon = row->base.time_to_loss; soon && soon->interval)
        add_claim(claims, soon->claim() ? Weight::answer : Weight::detail, [&](Form form) {
          const Relation e = relation_of(a, *row, row->base);
          return e.name + " reaches " + target + " " + speed_text(*soon, form) + " as soon as " + e.than +
                 (e.speed ? ", at " + speed_text(*e.speed, form) + " its tokens/s" : "") +
                 after(", ", verdict_text(*soon, form));
        });
  const auto with_time = [](const Row* row) {
    return name_in_text(row->name) + " (" + text_of(row->time_to_loss) + ")";
  };
  if (!others.empty() || (!there.empty() && !equal))
    add_claim(claims, Weight::answer, [&](Form form) {
      const std::string text = there.empty()
                                   ? "no rung reaches " + target + (in_some_rounds ? " in every round" : "")
                                   : list_text(texts_of(there, with_time), form) +
                                         (there.size() == 1 ? " reaches " : " reach ") + target;
      if (others.empty()) return text;
      return text + (there.empty() ? "; the last " + loss + "es are " : "; not in every round: ") +
             list_text(others, 3, form);
    });
  else if (any && there.empty())
    add_text(claims, Weight::answer,
             "the runs are too short to show whether a rung reaches " + target +
                 ": the test is the mean of " + std::to_string(kSmoothedSteps) +
                 " training losses, and they have fewer steps");
}

/// "over 3 seeds, the last validation loss of A differs by +0.0120 [+0.0040, +0.0200] from base"
void add_differences(const Analysis& a, Claims& claims) {
  for (const Row* row : select(a, [](const Row& row) {
         return row.base.perplexity && row.base.perplexity->interval && row.same_as < 0;
       })) {
    const Ratio& perplexity = *row->base.perplexity;
    const bool answers = perplexity.claim() && a.experiment.target_loss == 0;
    add_text(claims, answers ? Weight::answer : Weight::detail,
             "over " + counted(perplexity.rounds, "seed") + ", the last " +
                 loss_name(row->ends.front().validated) + " of " + name_in_text(row->name) + " differs by " +
                 difference_text(perplexity) + " from " + name_in_text(row->base.name) +
                 (perplexity.claim() ? "" : ", which may be chance"));
  }
}

bool holds_here(const Row* row) {
  const Ratio& speed = *row->previous.speed;
  return speed.claim() && (speed.value > 1) == (row->published->speedup > 1);
}

/// Published speedups of rungs that have an interval here: "of 3 published changes of speed 2 hold here: A
/// (1.14x [1.11, 1.18], published 1.12x), ..."
void add_published(const Analysis& a, Claims& claims) {
  const Rows rows = select(a, [](const Row& row) {
    return row.published && row.published->speedup > 0 && row.previous.between.empty() &&
           row.previous.differs.empty() && is_known(row.previous);
  });
  if (rows.empty()) return;
  const auto held = std::ranges::count_if(rows, holds_here);
  add_claim(claims, Weight::answer, [&](Form form) {
    const auto figure = [&](const Row* row) {
      return name_in_text(row->name) + " (" + speed_text(*row->previous.speed, form) + ", published " +
             ratio_only(row->published->speedup) + (holds_here(row) ? ")" : "; not shown)");
    };
    return "of " + counted(rows.size(), "published change") + " of speed " + std::to_string(held) +
           (held == 1 ? " holds" : " hold") + " here: " + list_text(texts_of(rows, figure), form);
  });
}

/// The last validation losses, the lowest first, and the shares of padding.
void add_levels(const Analysis& a, Claims& claims) {
  constexpr double kMuchPadding = 0.01;
  Numbers losses, padding;
  for (const Row* row : select(a, [](const Row& row) { return row.same_as < 0; })) {
    if (!row->validation.empty()) losses.emplace_back(name_in_text(row->name), row->validation.back().loss);
    if (row->padding.value_or(0) > kMuchPadding) padding.emplace_back(name_in_text(row->name), *row->padding);
  }
  std::ranges::stable_sort(losses, {}, &Numbers::value_type::second);
  const auto loss = [](const auto& each) { return fixed(each.second, 4) + " (" + each.first + ")"; };
  const auto share = [](const auto& each) { return percent(each.second, 0) + " (" + each.first + ")"; };
  if (losses.size() > 1)
    add_claim(claims, a.experiment.target_loss > 0 ? Weight::detail : Weight::answer, [&](Form form) {
      return "the validation loss ends at " + list_text(texts_of(losses, loss), form);
    });
  if (!padding.empty())
    add_claim(claims, Weight::other, [&](Form form) {
      return "padding takes " + list_text(texts_of(padding, share), form) + " of the positions";
    }).aside = true;
}

/// What a choice of a grid changes relative to another one.
struct Changes {
  std::string choice, against;
  struct Quantity {
    std::string title;
    double least = 1, most = 1;  ///< ratios over the combinations
    /// "peak memory by -22.0 %"
    std::string text() const {
      const std::string low = change(least), high = change(most);
      return title + " by " + low + (low == high ? "" : " to " + high);
    }
  };
  std::vector<Quantity> quantities;
};

/// What a choice changes in the columns of bytes that the view names, relative to the choice that it names.
/// Bytes repeat exactly, so a change needs no interval.
void add_changes(const Analysis& a, const Grid& grid, Claims& claims) {
  std::vector<Changes> found;
  for (const GridPoint& point : grid.points) {
    const GridPoint* other = reference_of(grid, point);
    if (other == nullptr || !point.row->ok() || !other->row->ok()) continue;
    const auto axis = std::ranges::mismatch(point.choices, other->choices);
    auto changes = std::ranges::find(found, name_in_text(*axis.in1), &Changes::choice);
    if (changes == found.end())
      changes = found.insert(changes, {name_in_text(*axis.in1), name_in_text(*axis.in2), {}});
    for (const std::string& column : grid.part->view.columns) {
      const Quantity& q = *quantity_of_grid(column);
      if (q.unit != Unit::bytes) continue;
      const auto value = number_of(q, a, *point.row), of_other = number_of(q, a, *other->row);
      if (!value || of_other.value_or(0) <= 0) continue;
      const double ratio = *value / *of_other;
      auto known = std::ranges::find(changes->quantities, title_in_grid(q), &Changes::Quantity::title);
      if (known == changes->quantities.end())
        known = changes->quantities.insert(known, {title_in_grid(q), ratio, ratio});
      known->least = std::min(known->least, ratio);
      known->most = std::max(known->most, ratio);
    }
  }
  for (const Changes& changes : found)
    if (!changes.quantities.empty())
      add_claim(claims, Weight::other, [&](Form form) {
        return changes.choice + " changes " +
               list_text(texts_of(changes.quantities, &Changes::Quantity::text), form) + " relative to " +
               changes.against;
      });
}

/// The fastest stack that a search measured over the base; null: none.
const TriedStack* top_of(const Tried& tried) {
  const TriedStack* top = nullptr;
  for (const TriedStage& stage : tried.stages)
    for (const TriedStack& each : stage.stacks)
      if (stage.reference == "base" && each.speed && (top == nullptr || *each.speed > *top->speed))
        top = &each;
  return top;
}

/// The result of a search. It quotes no speed of a stage, because the stack was chosen by it; the claims on
/// the final ladder do.
std::string search_text(const Tried& tried, Form form) {
  const TriedStack* top = top_of(tried);
  std::string text = "the search found " + tried.best;
  if (!tried.answered) {
    text = "the search has no answer yet: its time was enough for fewer than " + std::to_string(kMinRounds) +
           " rounds";
    if (top != nullptr)
      text += "; best so far: " + top->stack + ", " + ratio_only(*top->speed) + " as fast as the base in " +
              counted(top->rounds, "round");
    return text + (tried.decides_s.value_or(0) > 0 ? "; " + would_allow_a_claim(*tried.decides_s) : "");
  }
  if (tried.best == "base") {
    // A part may be faster alone, but nothing could be built on it.
    text = "the search found nothing that is shown to be faster than the base";
    if (top != nullptr && form == Form::finding) text += "; best so far: " + top->stack + ", " + top->result;
  }
  if (!tried.finished)
    text += "; its time ended before it had tried every move, so a longer --at-most may find a faster stack";
  return text;
}
}  // namespace

bool misses_loss(const Analysis& a, const Row& row) {
  const auto& mine = row.time_to_loss;
  if (!mine || !mine->enough_steps || mine->seconds) return false;
  return std::ranges::any_of(a.rows, [&](const Row& other) {
    const auto& there = other.time_to_loss;
    return other.ok() && there && there->seconds && there->validated == mine->validated;
  });
}

void add_answers(const Analysis& a, Claims& claims) {
  // The stages of a search have its knowledge; its ladder shows the answer.
  if (a.tried) add_claim(claims, Weight::answer, [&](Form form) { return search_text(*a.tried, form); });
  add_overfit(a, claims);
  add_time_to_loss(a, claims);
  add_differences(a, claims);
  add_published(a, claims);
  add_levels(a, claims);
}

void add_grid(const Analysis& a, Claims& claims) {
  const Rows grid = select(
      a, [](const Row& row) { return row.group == "grid" && row.base.speed && !row.base.speed->same_run; });
  Relations rivals;
  for (const Row* row : grid)
    if (is_rival(a, *row)) rivals.push_back(relation_of(a, *row, row->base));
  const auto value = [](const Relation& e) {
    return std::pair(e.speed->interval.has_value(), e.speed->value);
  };
  std::ranges::stable_sort(rivals, std::ranges::greater(), value);
  const auto faster = [](const Relation& e) { return e.speed->claim() && e.speed->value > 1; };
  const auto best = std::ranges::find_if(rivals, faster);
  const bool known = std::ranges::any_of(grid, [](const Row* row) { return is_known(row->base); });
  if (best != rivals.end()) {
    const std::string which = rivals.size() == grid.size() ? "" : " with the base's problem";
    const bool first = clearly_first(*best, rivals);
    add_trains(claims, Weight::answer, *best, /*absolute=*/true,
               (first ? ", the fastest combination" : ", among the fastest combinations") + which);
  } else if (known && rivals.empty()) {
    add_text(claims, Weight::answer,
             "no combination solves the base's problem and trains as well, so none is called the fastest");
  } else if (known && rivals.front().speed->interval && a.experiment.target_loss == 0) {
    add_text(claims, Weight::answer, "no combination is shown to be faster than the base");
    add_trains(claims, Weight::detail, rivals.front(), /*absolute=*/false, ", the nearest");
  }
  for (const Grid& each : grids_of(a)) add_changes(a, each, claims);
}

/// "4 ranks train 3.50x [3.41, 3.59] as many tokens/s as 1 rank (replicas, weak scaling, 88 % efficient)"
void add_scaling(const Analysis& a, Claims& claims) {
  for (const ScalingSeries& series : a.scaling) {
    const auto known =
        std::find_if(series.points.rbegin(), series.points.rend(),
                     [](const ScalingPoint& point) { return point.speedup && point.speedup->interval; });
    if (known == series.points.rend()) continue;
    const Row& row = *a.row(known->variant);
    const std::string efficiency = known->efficiency_text(0);
    std::string exposed;
    if (row.exposed_seconds && row.step_seconds.value_or(0) > 0)
      exposed = "; exposed communication takes " + percent(*row.exposed_seconds / *row.step_seconds, 0) +
                " of the step";
    add_claim(claims, claims.empty() ? Weight::answer : Weight::other, [&](Form form) {
      return counted(known->ranks, "rank") + " train " + speed_text(*known->speedup, form) +
             " as many tokens/s as " + counted(series.points.front().ranks, "rank") + " (" + series.title() +
             (efficiency == kUnknown ? "" : ", " + efficiency + " efficient") + ")" +
             after(", ", verdict_text(*known->speedup, form)) + (form == Form::finding ? exposed : "");
    });
  }
}

void add_programs(const Analysis& a, Claims& claims) {
  constexpr int kMost = 2;  // in the headline
  int stated = 0;
  for (const OtherProgram& program : a.programs) {
    const auto& external = a.variant(program.variant).external;
    if ((external && !external->headline) || !is_known(program.comparison)) continue;
    Relation relation = relation_of(a, *a.row(program.fastest), program.comparison);
    relation.name = stack_name(a, *relation.row);
    add_trains(claims, ++stated > kMost ? Weight::detail : Weight::answer, relation, /*absolute=*/false,
               a.row(program.variant)->checked ? "" : " (whose losses could not be compared)");
  }
  // What no rung of a ladder states: programs of another problem, and programs on top of programs.
  const Weight weight = std::ranges::all_of(claims, &Claim::aside) ? Weight::answer : Weight::detail;
  for (const Row* row : select(a, [&](const Row& row) {
         const Comparison& c = row.previous;
         return row.group == "external" && is_known(c) &&
                (!c.differs.empty() || a.row(c.variant)->group == "external");
       }))
    add_trains(claims, a.variant(row->variant).external->headline ? weight : Weight::detail,
               relation_of(a, *row, row->previous));
}

void add_ends(const Analysis& a, Claims& claims) {
  for (const Row* row : select(a, [](const Row& row) { return row.previous.worse.has_value(); })) {
    const Worse& losses = *row->previous.worse;
    const std::string text =
        name_in_text(row->name) + " trains worse than " + name_in_text(row->previous.name);
    claims.push_back({Weight::failure,
                      text + ": over the last third of equally many tokens its mean " +
                          loss_name(losses.validated) + " is " + fixed(losses.loss, 3) + " instead of " +
                          fixed(losses.other, 3),
                      text});
  }
  for (const Status status :
       {Status::broken, Status::oom, Status::crashed, Status::timeout, Status::failed, Status::skipped}) {
    const Rows rows = rows_where(a.rows, [&](const Row& row) { return row.status == status && row.started; });
    if (rows.empty()) continue;
    const auto names = texts_of(rows, [](const Row* row) { return name_in_text(row->name); });
    add_claim(claims, Weight::failure,
              [&](Form form) { return list_text(names, form) + " " + what_happened(status); });
  }
}
}  // namespace optrush
