// The claims of experiments with another question than the speed of a ladder.
#include <algorithm>
#include <functional>
#include <iterator>

#include "analysis/grid.h"
#include "analysis/numbers/format.h"
#include "analysis/problem.h"
#include "analysis/quantities.h"
#include "base/text.h"
#include "report/claims/claims.h"

namespace optrush {
namespace {
void add_overfit(const Analysis& a, Claims& claims) {
  Learns learns;
  for (const Row& row : a.rows) {  // a row that did not learn the batch has not ended well
    if (!row.overfit || row.same_as >= 0) continue;
    learns.required = row.overfit->required;
    (row.overfit->learned() ? learns.learned : learns.failed)
        .emplace_back(name_in_text(row.name), row.overfit->last);
  }
  if (learns.required > 0) claims.push_back({Weight::answer, learns});
}

/// Which rungs reach the target loss, of the base's task with the same kind of loss. If all take the same
/// number of steps, the claims on speed are enough.
void add_time_to_loss(const Analysis& a, Claims& claims) {
  const auto first =
      std::ranges::find_if(a.rows, [](const Row& row) { return row.time_to_loss.has_value(); });
  if (first == a.rows.end()) return;
  Reaches reaches{.target = a.experiment.target_loss};
  bool any = false;
  for (const Row* row : select(a, [&](const Row& row) {
         return row.time_to_loss && row.time_to_loss->validated == first->time_to_loss->validated &&
                row.same_as < 0 && same_task(a.spec(row), a.variants.front().spec);
       })) {
    any = true;
    if (!row->time_to_loss->enough_steps) continue;
    reaches.in_some_rounds |= row->time_to_loss->in_some_rounds;
    if (row->time_to_loss->seconds)
      reaches.there.push_back(row);
    else
      reaches.others.emplace_back(name_in_text(row->name), row->time_to_loss->last);
  }
  std::ranges::stable_sort(reaches.there, {}, [](const Row* row) { return *row->time_to_loss->seconds; });
  std::ranges::stable_sort(reaches.others, {}, &Numbers::value_type::second);
  const bool equal = std::ranges::all_of(reaches.there, [&](const Row* row) {
    return row->time_to_loss->steps == reaches.there.front()->time_to_loss->steps;
  });
  if (!equal)
    for (const Row* row : reaches.there)
      if (row->base.time_to_loss && row->base.time_to_loss->interval)
        claims.push_back(
            {row->base.time_to_loss->claim() ? Weight::answer : Weight::detail,
             Exchange{relation_of(a, *row, row->base), *row->base.time_to_loss, reaches.target}});
  if (!reaches.others.empty() || (!reaches.there.empty() && !equal))
    claims.push_back({Weight::answer, std::move(reaches)});
  else if (any && reaches.there.empty())
    claims.push_back({Weight::answer,
                      Open{"the runs are too short to show whether a rung reaches a loss of " +
                           exact_number(reaches.target) + ": the test is the mean of " +
                           std::to_string(kSmoothedSteps) + " training losses, and they have fewer steps"}});
}

void add_differences(const Analysis& a, Claims& claims) {
  for (const Row* row : select(a, [](const Row& row) {
         return row.base.perplexity && row.base.perplexity->interval && row.same_as < 0;
       }))
    claims.push_back(
        {row->base.perplexity->claim() && a.experiment.target_loss == 0 ? Weight::answer : Weight::detail,
         Differs{name_in_text(row->name), name_in_text(row->base.name), *row->base.perplexity}});
}

/// Published speedups of rungs that have an interval here.
void add_published(const Analysis& a, Claims& claims) {
  Holds holds;
  for (const Row* row : select(a, [](const Row& row) {
         return row.published && row.published->speedup > 0 && row.previous.between.empty() &&
                row.previous.differs.empty() && row.previous.speed && row.previous.speed->interval;
       }))
    holds.figures.push_back({relation_of(a, *row, row->previous), row->published->speedup});
  if (!holds.figures.empty()) claims.push_back({Weight::answer, std::move(holds)});
}

/// The last validation losses, the lowest first, and the shares of padding.
void add_levels(const Analysis& a, Claims& claims) {
  constexpr double kMuchPadding = 0.01;
  Levels losses{.before = "the validation loss ends at ", .rows = {}, .after = ""},
      padding{.before = "padding takes ", .rows = {}, .after = " of the positions", .shares = true};
  for (const Row* row : select(a, [](const Row& row) { return row.same_as < 0; })) {
    if (!row->validation.empty())
      losses.rows.emplace_back(name_in_text(row->name), row->validation.back().loss);
    if (row->padding.value_or(0) > kMuchPadding)
      padding.rows.emplace_back(name_in_text(row->name), *row->padding);
  }
  std::ranges::stable_sort(losses.rows, {}, &Numbers::value_type::second);
  if (losses.rows.size() > 1)
    claims.push_back({a.experiment.target_loss > 0 ? Weight::detail : Weight::answer, std::move(losses)});
  if (!padding.rows.empty()) claims.push_back({Weight::other, std::move(padding)});
}

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
  for (Changes& changes : found)
    if (!changes.quantities.empty()) claims.push_back({Weight::other, std::move(changes)});
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
  if (a.tried) claims.push_back({Weight::answer, Finds{&*a.tried}});
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
  const bool known =
      std::ranges::any_of(grid, [](const Row* row) { return row->base.speed->interval.has_value(); });
  if (best != rivals.end()) {
    std::rotate(rivals.begin(), best, std::next(best));
    const std::string which = rivals.size() == grid.size() ? "" : " with the base's problem";
    claims.push_back({Weight::answer,
                      Trains{.relation = rivals.front(),
                             .absolute = true,
                             .remark = clearly_first(rivals) ? ", the fastest combination" + which
                                                             : ", among the fastest combinations" + which}});
  } else if (known && rivals.empty()) {
    claims.push_back(
        {Weight::answer, Open{"no combination solves the base's problem and trains as well, so none "
                              "is called the fastest"}});
  } else if (known && rivals.front().speed->interval && a.experiment.target_loss == 0) {
    claims.push_back({Weight::answer, Open{"no combination is shown to be faster than the base"}});
    claims.push_back({Weight::detail, Trains{.relation = rivals.front(), .remark = ", the nearest"}});
  }
  for (const Grid& each : grids_of(a)) add_changes(a, each, claims);
}

void add_scaling(const Analysis& a, Claims& claims) {
  for (const ScalingSeries& series : a.scaling) {
    const auto known =
        std::find_if(series.points.rbegin(), series.points.rend(),
                     [](const ScalingPoint& point) { return point.speedup && point.speedup->interval; });
    if (known == series.points.rend()) continue;
    const Row& row = *a.row(known->variant);
    Scales scales{.ranks = known->ranks,
                  .from = series.points.front().ranks,
                  .speed = *known->speedup,
                  .title = series.title(),
                  .efficiency = known->efficiency_text(0),
                  .exposed_share = {}};
    if (row.exposed_seconds && row.step_seconds.value_or(0) > 0)
      scales.exposed_share = *row.exposed_seconds / *row.step_seconds;
    claims.push_back({claims.empty() ? Weight::answer : Weight::other, std::move(scales)});
  }
}

void add_programs(const Analysis& a, Claims& claims) {
  constexpr int kMost = 2;  // in the headline
  int stated = 0;
  for (const OtherProgram& program : a.programs) {
    const auto& external = a.variant(program.variant).external;
    if ((external && !external->headline) || !program.comparison.speed || !program.comparison.speed->interval)
      continue;
    Relation relation = relation_of(a, *a.row(program.fastest), program.comparison);
    relation.name = stack_name(a, *relation.row);
    claims.push_back(
        {++stated > kMost ? Weight::detail : Weight::answer,
         Trains{.relation = relation,
                .remark = a.row(program.variant)->checked ? "" : " (whose losses could not be compared)"}});
  }
}

void add_ends(const Analysis& a, Claims& claims) {
  for (const Row* row : select(a, [](const Row& row) { return row.previous.worse.has_value(); }))
    claims.push_back({Weight::failure, TrainsWorse{name_in_text(row->name), name_in_text(row->previous.name),
                                                   *row->previous.worse}});
  for (const Status status :
       {Status::broken, Status::oom, Status::crashed, Status::timeout, Status::failed, Status::skipped}) {
    Ended ended{.status = status, .names = {}};
    for (const Row& row : a.rows)
      if (row.status == status && row.started) ended.names.push_back(name_in_text(row.name));
    if (!ended.names.empty()) claims.push_back({Weight::failure, std::move(ended)});
  }
}
}  // namespace optrush
