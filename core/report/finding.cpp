#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

#include "base/counted.h"
#include "report/finding_parts.h"
#include "report/format.h"
#include "report/verdict.h"

namespace optrush {
std::string speedup(const Comparison& c) {
  return interval_text(*c.speed) + (c.differs.empty() ? "" : " in tokens/s");
}

std::string ranks_text(int64_t ranks) { return counted(ranks, "rank"); }

std::string other_ranks(const Row& row, const Row& other) {
  if (row.devices == other.devices) return "";
  return " on " + ranks_text(row.devices) + " instead of " + std::to_string(other.devices);
}

bool is_rival(const Row& row) { return row.base.differs.empty() && !row.base.worse; }

namespace {
/// Fast or not: what a rung does to training. Of grids and ablations against the base.
void add_quality(const Analysis& a, Sentences& parts) {
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

void add_ablation(const Analysis& a, Sentences& parts) {
  for (const Row* full : select(a, [](const Row& row) { return row.group == "full"; }))
    if (full->base.speed && full->base.speed->claim())
      parts.push_back("the full stack trains " + speedup(full->base) + " as fast as the base");
  const auto claims = [](const AblationLine& line) { return line.in_stack && line.in_stack->claim(); };
  const auto best = std::ranges::find_if(a.ablation, claims);
  if (best != a.ablation.end() && best->in_stack->value > 1)
    parts.push_back("in the full stack " + best->rung +
                    (best == a.ablation.begin() ? " is worth most: " : " is worth most of what is sure: ") +
                    interval_text(*best->in_stack) +
                    (best->differs.empty() ? "" : " in tokens/s, not like for like (" + best->differs + ")"));
  else if (std::ranges::any_of(
               a.ablation, [](const AblationLine& line) { return line.in_stack && line.in_stack->interval; }))
    parts.emplace_back("in the full stack no rung is shown to be worth anything");
}

void add_grid(const Analysis& a, Sentences& parts) {
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
  const bool sure = best.base.speed->claim(), faster = best.base.speed->value > 1;
  const std::string over =
      speedup(best.base) + " over the base" + other_ranks(best, *a.row(best.base.variant));
  if (sure && faster)
    parts.push_back("of the combinations " + which + best.name + " is fastest: " + over);
  else
    parts.push_back("no combination " + which + "is " + (sure ? "" : "shown to be ") +
                    "faster than the base; next comes " + best.name + ": " + over +
                    (sure ? "" : ", " + describe(verdict_of(*best.base.speed))));
}

/// The series of each kind that gains most, and how much of its step waits for other ranks.
void add_scaling(const Analysis& a, Sentences& parts) {
  for (const Scaling kind : {Scaling::weak, Scaling::strong}) {
    std::vector<const ScalingSeries*> claimed;
    for (const auto& series : a.scaling)
      if (series.kind == kind && series.largest().speedup->interval) claimed.push_back(&series);
    if (claimed.empty()) continue;
    const ScalingSeries& best = **std::ranges::max_element(
        claimed, {}, [](const ScalingSeries* series) { return series->largest().speedup->value; });
    const ScalingPoint &from = best.points.front(), &to = best.largest();
    const Row& row = *a.row(to.variant);
    std::string text = best.name + " makes " + interval_text(*to.speedup) + " of the tokens a second of " +
                       ranks_text(from.ranks) + " on " + std::to_string(to.ranks) + " (" +
                       std::string(to_string(kind)) + " scaling, " + percent(to.efficiency, 0) +
                       " efficient)";
    if (row.exposed_seconds && row.step_seconds.value_or(0) > 0)
      text += ", with " + percent(*row.exposed_seconds / *row.step_seconds, 0) +
              " of a step in exposed communication";
    parts.push_back(text);
  }
}

/// The fastest of the other programs: who beats that one beats them all.
void add_programs(const Analysis& a, Sentences& parts) {
  if (a.programs.empty()) return;
  const OtherProgram& best = a.programs.front();
  if (!best.comparison.speed || !best.comparison.speed->interval) return;
  parts.push_back(
      a.row(best.fastest)->name + " trains " + speedup(best.comparison) + " as fast as " +
      best.comparison.name + ", the fastest other program" +
      (a.row(best.variant)->checked ? "" : " (whose losses could not be compared)") +
      other_ranks(*a.row(best.fastest), *a.row(best.variant)) +
      (best.comparison.speed->claim() ? "" : ", " + describe(verdict_of(*best.comparison.speed))));
}

/// Of a search: its stages are what it knows, its ladder only shows the answer.
void add_search(const Analysis& a, Sentences& parts) {
  if (!a.tried.is_object()) return;
  const std::string best = a.tried.at("best");
  std::string text =
      best == "base" ? "the search found nothing that is faster than the base" : "the search found " + best;
  for (const Json& stage : a.tried.at("stages"))
    for (const Json& stack : stage.at("stacks"))
      if (stack.at("stack") == best && !stack.at("speed").is_null())
        text += " (" + stack.at("result").get<std::string>() + " over " +
                stage.at("reference").get<std::string>() + ")";
  if (!a.tried.at("finished").get<bool>())
    text += "; its time was out before every move was tried, so a longer --at-most may find a faster one";
  parts.push_back(text);
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

void add_failures(const Analysis& a, Sentences& parts) {
  for (const Status status :
       {Status::broken, Status::oom, Status::crashed, Status::timeout, Status::failed, Status::skipped}) {
    std::vector<std::string> names;
    for (const Row& row : a.rows)
      if (row.status == status && row.started) names.push_back(row.name);
    if (!names.empty()) parts.push_back(join(names) + " " + what_happened(status));
  }
}

/// Nothing can be claimed: the medians are all that can be said.
void add_medians(const Analysis& a, Sentences& parts) {
  const Rows rows = select(a, [](const Row& row) { return row.tokens_per_second.has_value(); });
  if (rows.empty()) return;
  const auto speed = [](const Row* row) { return *row->tokens_per_second; };
  if (a.variants.size() == 1) {  // a training, and no comparison
    const Row& row = *rows.front();
    std::string text = row.name + " trains " + grouped(speed(&row)) + " tokens/s";
    if (row.final_loss) text += " to a loss of " + fixed(*row.final_loss, 4);
    if (!row.validation.empty()) text += ", of held-out data " + fixed(row.validation.back().loss, 4);
    parts.push_back(text + ", in " + counted(std::ssize(row.steps), "step"));
    return;
  }
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
  add_search(a, parts);
  add_time_to_loss(a, parts);
  add_ladder(a, parts);
  add_ablation(a, parts);
  add_grid(a, parts);
  add_scaling(a, parts);
  add_programs(a, parts);
  if (parts.empty()) add_medians(a, parts);  // no claim can be made
  add_quality(a, parts);
  add_failures(a, parts);
  if (parts.empty()) parts.emplace_back("nothing was measured");
  if (a.missing_runs > 0)
    parts.front() = std::to_string(a.missing_runs) + (a.missing_runs == 1 ? " run has" : " runs have") +
                    " no result yet; so far: " + parts.front();
  for (std::string& part : parts) part += ".";
  return parts;
}

std::string finding_text(const Analysis& a) { return join(a.findings, " "); }
}  // namespace optrush
