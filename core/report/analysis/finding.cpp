#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <map>
#include <tuple>
#include <vector>

#include "base/text.h"
#include "report/analysis/finding_parts.h"
#include "report/analysis/more_time.h"
#include "report/analysis/problem.h"
#include "report/numbers/format.h"
#include "report/numbers/verdict.h"

namespace optrush {
std::string speedup(const Comparison& c, const std::string& than) {
  return interval_text(*c.speed) + (c.differs.empty() ? " as fast as " : " as many tokens/s as ") +
         name_in_text(than);
}

std::string ranks_text(int64_t ranks) { return counted(ranks, "rank"); }

std::string other_ranks(const Row& row, const Row& other) {
  if (row.devices == other.devices) return "";
  return " on " + ranks_text(row.devices) + " instead of " + std::to_string(other.devices);
}

std::string unless_claimed(const Ratio& ratio) {
  return ratio.claim() ? "" : ", " + describe(verdict_of(ratio));
}

bool is_rival(const Analysis& a, const Row& row) {
  return row.base.differs.empty() && !row.base.worse && !misses_loss(a, row);
}

namespace {
using Lines = std::vector<const AblationLine*>;

/// Adds rungs that train worse, at any speed. Rungs of grids and ablations are compared with the base.
void add_quality(const Analysis& a, Sentences& parts) {
  // By reference, kind of loss, and loss of the reference.
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
      parts.push_back(name_in_text(rows.front()->name) + " trains worse than " + name +
                      ": over the last third of equally many tokens its mean" + loss + " is " +
                      loss_of(*rows.front()) + " instead of " + other);
    else
      parts.push_back(
          names_text(rows,
                     [&](const Row& row) { return name_in_text(row.name) + " (" + loss_of(row) + ")"; }) +
          " train worse than " + name + " (" + other + "), by the mean" + loss +
          " over the last third of equally many tokens");
  }
}

void add_ablation(const Analysis& a, Sentences& parts) {
  for (const Row* full : select(a, [](const Row& row) { return row.group == "full"; }))
    if (full->base.speed && full->base.speed->claim())
      parts.push_back("the full stack trains " + speedup(full->base, "the base") +
                      (misses_loss(a, *full) ? ", but does not reach the loss" : ""));
  Lines known;
  for (const AblationLine& line : a.ablation)
    if (line.in_stack && line.in_stack->interval) known.push_back(&line);
  if (known.empty()) return;
  const auto claimed = [](const AblationLine* line) { return line->in_stack->claim(); };
  const auto text = [&](const AblationLine& line) {
    return interval_text(*line.in_stack) +
           (line.differs.empty() ? "" : " in tokens/s, not like for like (" + line.differs + ")");
  };
  const auto best = std::ranges::find_if(known, claimed);
  if (best != known.end() && (*best)->in_stack->value > 1) {
    const bool surely = &a.ablation.front() == *best;
    parts.push_back(
        "in the full stack " + (*best)->rung +
        (surely ? " makes the largest contribution: " : " makes the largest certain contribution: ") +
        text(**best));
  } else if (best != known.end()) {
    const AblationLine& worst = **std::find_if(known.rbegin(), known.rend(), claimed);
    parts.push_back("in the full stack no rung is shown to make training faster; " + worst.rung +
                    " costs most: " + text(worst));
  } else if (known.size() == a.ablation.size()) {
    parts.emplace_back("no rung has a measurable effect in the full stack");
  } else {
    std::vector<std::string> names;
    for (const AblationLine* line : known) names.push_back(line->rung);
    parts.push_back("none of these rungs has a measurable effect in the full stack: " + listed_names(names));
  }
}

}  // namespace

void add_grid(const Analysis& a, Sentences& parts) {
  const Rows grid = select(
      a, [](const Row& row) { return row.group == "grid" && row.base.speed && row.base.speed->interval; });
  if (grid.empty()) return;
  const Rows rivals = those(grid, [&](const Row& row) { return is_rival(a, row); });
  if (rivals.empty()) {
    parts.emplace_back(
        "no combination solves the base's problem and trains as well, so none is called the fastest");
    return;
  }
  const auto value = [](const Row* row) { return row->base.speed->value; };
  const Rows faster =
      those(rivals, [](const Row& row) { return row.base.speed->claim() && row.base.speed->value > 1; });
  const Row& best = **std::ranges::max_element(faster.empty() ? rivals : faster, {}, value);
  // If the experiment has a target loss, an unknown speed is not an answer.
  if (a.experiment.target_loss > 0 && !best.base.speed->claim()) return;
  const std::string which = rivals.size() == grid.size() ? "" : " with the base's problem";
  const std::string over = speedup(best.base, "the base") + other_ranks(best, *a.row(best.base.variant));
  // Others that may be faster, but whose speed is not certain.
  const Rows others = select(a, [&](const Row& row) {
    return row.group == "grid" && is_rival(a, row) && row.base.speed && !row.base.speed->claim() &&
           !row.base.speed->same_run && row.base.speed->value > best.base.speed->value;
  });
  if (!faster.empty())
    return parts.push_back(name_in_text(best.name) + " is the fastest combination" + which +
                           (others.empty() ? ": " : ", as far as is certain: ") + over);
  const bool none = std::ranges::all_of(
      select(a, [&](const Row& row) { return row.group == "grid" && is_rival(a, row) && row.base.speed; }),
      [](const Row* row) {
        return row->base.speed->same_run || (row->base.speed->claim() && row->base.speed->value < 1);
      });
  parts.push_back("no combination" + which + " is " + (none ? "" : "shown to be ") +
                  "faster than the base; the nearest is " + name_in_text(best.name) + ": " + over +
                  unless_claimed(*best.base.speed));
}

namespace {
/// A series, and its largest point with an interval.
struct Scaled {
  const ScalingSeries* series = nullptr;
  const ScalingPoint* to = nullptr;
};

std::optional<Scaled> scaled(const ScalingSeries& series) {
  const auto known =
      std::find_if(series.points.rbegin(), series.points.rend(),
                   [](const ScalingPoint& point) { return point.speedup && point.speedup->interval; });
  if (known == series.points.rend()) return std::nullopt;
  return Scaled{&series, &*known};
}

/// The series of a kind with the largest speedup; none if no series of the kind has an interval.
std::optional<Scaled> best_scaled(const Analysis& a, Scaling kind) {
  std::optional<Scaled> best;
  for (const auto& series : a.scaling)
    if (const auto one = scaled(series); one && series.kind == kind)
      if (!best || one->to->speedup->value > best->to->speedup->value) best = one;
  return best;
}

constexpr std::array kScalings = {Scaling::weak, Scaling::strong};
}  // namespace

std::vector<SlowerRung> slower_on_as_many_ranks(const Analysis& a) {
  std::vector<SlowerRung> slower;
  for (const Scaling kind : kScalings) {
    const auto best = best_scaled(a, kind);
    if (!best) continue;
    const auto& points = best->series->points;
    for (const ScalingSeries& series : a.scaling) {
      const ScalingPoint& point = series.largest();
      const auto same = std::ranges::find(points, point.ranks, &ScalingPoint::ranks);
      if (series.kind != kind || same == points.end() || same->variant == point.variant) continue;
      if (!difference_of_problems(a, point.variant, a, same->variant).empty()) continue;
      const Row &row = *a.row(point.variant), &than = *a.row(same->variant);
      const auto speed = paired_speed(row, than, a.standard);
      if (speed && verdict_of(*speed).outcome == Outcome::slower) slower.push_back({&row, &than, *speed});
    }
  }
  return slower;
}

void add_scaling(const Analysis& a, Sentences& parts) {
  for (const Scaling kind : kScalings) {
    const auto best = best_scaled(a, kind);
    if (!best) continue;
    const ScalingPoint &from = best->series->points.front(), &to = *best->to;
    const Row& row = *a.row(to.variant);
    std::string text = ranks_text(to.ranks) + " train " + interval_text(*to.speedup) +
                       " as many tokens/s as " + ranks_text(from.ranks) + " (" + best->series->title() +
                       ", " + percent(to.efficiency, 0) + " efficient)" + unless_claimed(*to.speedup);
    if (row.exposed_seconds && row.step_seconds.value_or(0) > 0)
      text += "; exposed communication takes " + percent(*row.exposed_seconds / *row.step_seconds, 0) +
              " of the step";
    parts.push_back(text);
  }
}

namespace {
void add_slower_on_as_many_ranks(const Analysis& a, Sentences& parts) {
  for (const SlowerRung& slower : slower_on_as_many_ranks(a))
    parts.push_back("on the same number of ranks, " + name_in_text(slower.row->name) + " trains " +
                    interval_text(slower.speed) + " as fast as " + name_in_text(slower.than->name));
}
}  // namespace

void add_programs(const Analysis& a, Sentences& parts) {
  const auto fair = [&](const OtherProgram& program) {
    const auto& external = a.variant(program.variant).external;
    return !external || external->headline;
  };
  const auto found = std::ranges::find_if(a.programs, [&](const OtherProgram& program) {
    return fair(program) && program.comparison.speed && program.comparison.speed->interval;
  });
  if (found == a.programs.end()) return;
  const OtherProgram& best = *found;
  parts.push_back(
      name_in_text(a.row(best.fastest)->name) + " trains " + speedup(best.comparison, best.comparison.name) +
      (found == std::ranges::find_if(a.programs, fair) ? ", the fastest other program"
                                                       : ", the fastest other program with enough rounds") +
      (a.row(best.variant)->checked ? "" : " (whose losses could not be compared)") +
      other_ranks(*a.row(best.fastest), *a.row(best.variant)) + unless_claimed(*best.comparison.speed));
}

namespace {
/// The measurements of a search relative to a reference.
std::vector<TriedStack> measured_over(const Tried& tried, const std::string& reference) {
  std::vector<TriedStack> all;
  for (const TriedStage& stage : tried.stages)
    if (stage.reference == reference)
      std::ranges::copy_if(stage.stacks, std::back_inserter(all),
                           [](const TriedStack& each) { return each.speed.has_value(); });
  return all;
}

/// The options to continue, "--resume --at-most 5m", for at least this estimated number of seconds.
std::string resume_for(double seconds) {
  constexpr double kMargin = 1.25;
  const double needed = kMargin * seconds;
  const auto up = [&](double unit) { return fixed(std::max(1.0, std::ceil(needed / unit)), 0); };
  return "--resume --at-most " + (needed <= 90     ? up(1) + "s"
                                  : needed <= 5400 ? up(60) + "m"
                                                   : up(3600) + "h");
}

std::string would_allow_a_claim(double seconds) {
  return about_time(seconds) + " more would allow a claim (" + resume_for(seconds) + ")";
}

}  // namespace

// The stages of a search have its knowledge; its ladder only shows the answer.
void add_search(const Analysis& a, Sentences& parts) {
  if (!a.tried) return;
  const Tried& tried = *a.tried;
  const std::vector<TriedStack> over_base = measured_over(tried, "base");
  const auto top = std::ranges::max_element(over_base, {}, &TriedStack::speed);
  if (!tried.answered) {
    std::string text = "the search has no answer yet: its time was enough for fewer than " +
                       std::to_string(kMinRounds) + " rounds";
    if (top != over_base.end()) {
      const std::string seen = top->stack + ", " + ratio_only(*top->speed) + " as fast as the base in " +
                               counted(top->rounds, "round");
      text += top->speed > 1 ? "; best so far: " + seen
                             : "; no stack was faster than the base so far (nearest: " + seen + ")";
    }
    if (tried.decides_s.value_or(0) > 0) text += "; " + would_allow_a_claim(*tried.decides_s);
    return parts.push_back(text);
  }
  std::string text = "the search found " + tried.best;
  if (tried.best == "base") {
    const bool maybe = top != over_base.end() && top->speed > 1;
    // A part is faster alone, but nothing could be built on it.
    const bool lost = std::ranges::any_of(over_base, &TriedStack::faster);
    text = lost ? "the search found no stack that it could confirm to be faster than the base"
                : std::string("the search found nothing that is ") + (maybe ? "shown to be " : "") +
                      "faster than the base";
    if (maybe) text += "; best so far: " + top->stack + ", " + top->result;
  }
  for (const TriedStage& stage : tried.stages)
    for (const TriedStack& each : stage.stacks)
      if (each.stack == tried.best && each.speed)
        text += " (against " + stage.reference + ": " + each.result + ")";
  if (!tried.finished)
    text += "; its time ended before it had tried every move, so a longer --at-most may find a faster stack";
  parts.push_back(text);
}

std::string what_happened(Status status) {
  static constexpr std::array<const char*, 7> kTexts = {"",
                                                        "ran out of memory",
                                                        "failed",
                                                        "crashed",
                                                        "did not end in time",
                                                        "did not run",
                                                        "broke the correctness gate"};
  return kTexts.at(static_cast<size_t>(status));
}

namespace {
void add_failures(const Analysis& a, Sentences& parts) {
  for (const Status status :
       {Status::broken, Status::oom, Status::crashed, Status::timeout, Status::failed, Status::skipped}) {
    std::vector<std::string> names;
    for (const Row& row : a.rows)
      if (row.status == status && row.started) names.push_back(row.name);
    if (!names.empty()) parts.push_back(listed_names(names) + " " + what_happened(status));
  }
}

/// Without any claim, states the medians.
void add_medians(const Analysis& a, Sentences& parts) {
  const Rows rows = select(a, [](const Row& row) { return row.tokens_per_second.has_value(); });
  if (rows.empty()) return;
  const auto speed = [](const Row* row) { return *row->tokens_per_second; };
  if (a.variants.size() == 1) {  // a single training without a comparison
    const Row& row = *rows.front();
    std::string text = name_in_text(row.name) + " trains " + grouped(speed(&row)) + " tokens/s";
    if (row.final_loss) text += " to a loss of " + fixed(*row.final_loss, 4);
    if (!row.validation.empty()) text += " and a validation loss of " + fixed(row.validation.back().loss, 4);
    parts.push_back(text + ", in " + counted(std::ssize(row.steps), "step"));
    return;
  }
  if (rows.size() == 1) {
    parts.push_back("only " + name_in_text(rows.front()->name) +
                    " succeeded, so there is nothing to compare; it trains " + grouped(speed(rows.front())) +
                    " tokens/s");
    return;
  }
  const Rows rivals = select(
      a, [&](const Row& row) { return is_rival(a, row) && row.base.speed && !row.base.speed->same_run; });
  if (rivals.empty()) {
    // A rung that trains worse is named later.
    const bool compared = !select(a, [](const Row& row) {
                             return row.base.differs.empty() && row.base.speed && !row.base.speed->same_run;
                           }).empty();
    parts.push_back(compared
                        ? "no rung trains as well as the base, so there is no claim"
                        : "no two rungs with the same problem succeeded in the same round, so there is no "
                          "claim");
    return;
  }
  const auto over = [](const Row* row) { return row->base.speed->value; };
  const Row& best = **std::ranges::max_element(rivals, {}, over);
  const Ratio& speed_of_best = *best.base.speed;
  const std::string seen = name_in_text(best.name) + ", " + ratio_only(speed_of_best.value) + " as fast as " +
                           name_in_text(best.base.name) + " in " +
                           counted(static_cast<int64_t>(speed_of_best.rounds), "round");
  // A row may have enough rounds even if the best one has not.
  const auto sure = select(a, [&](const Row& row) {
    return is_rival(a, row) && row.base.speed && row.base.speed->claim() && row.base.speed->value > 1;
  });
  if (!sure.empty()) {
    const Row& most = **std::ranges::max_element(sure, {}, over);
    parts.push_back(name_in_text(most.name) + " trains " + speedup(most.base, most.base.name));
    return;
  }
  const bool any =
      std::ranges::any_of(rivals, [](const Row* row) { return row->base.speed->interval.has_value(); });
  // The table may show a larger ratio for a row that is not like for like.
  const bool of_some = std::ranges::any_of(a.rows, [&](const Row& row) {
    return row.ok() && row.base.speed && !row.base.differs.empty() &&
           row.base.speed->value > speed_of_best.value;
  });
  std::string text = (any ? std::string("no rung is shown to make training faster")
                          : "no claim yet: a claim needs " + std::to_string(kMinRounds) + " rounds") +
                     "; ";
  if (speed_of_best.value > 1)
    text += std::string("best so far") + (of_some ? ", like for like" : "") + ": " + seen;
  else
    text += std::string("no ") + (of_some ? "like-for-like " : "") + "rung was faster than " +
            name_in_text(best.base.name) + " so far (nearest: " + seen + ")";
  if (any && speed_of_best.interval)
    text += unless_claimed(speed_of_best);
  else if (a.experiment.until)
    text += "; " + would_allow_a_claim(seconds_to_claims(a));
  else
    text += "; --resume --rounds " + std::to_string(kMinRounds) + " would allow a claim, in " +
            about_time(seconds_to_claims(a));
  parts.push_back(text);
}

/// Names rows without enough rounds, if other rows have claims.
void add_too_few(const Analysis& a, Sentences& parts) {
  const Rows few = select(a, [](const Row& row) {
    return row.same_as < 0 && row.base.variant >= 0 && row.base.speed && !row.base.speed->same_run &&
           row.base.speed->rounds < kMinRounds;
  });
  if (few.empty() || !a.experiment.until) return;
  parts.push_back("no claim on " +
                  names_text(few,
                             [](const Row& row) {
                               return name_in_text(row.name) + " (" + ratio_only(row.base.speed->value) +
                                      " as fast as " + name_in_text(row.base.name) + " in " +
                                      counted(static_cast<int64_t>(row.base.speed->rounds), "round") + ")";
                             }) +
                  ": " + would_allow_a_claim(seconds_to_claims(a)));
}

/// Starts with a capital letter, unless the sentence begins with the name of a rung.
std::string sentence(const Analysis& a, std::string part) {
  if (std::ranges::none_of(a.rows, [&](const Row& row) { return part.starts_with(row.name); }))
    part.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(part.front())));
  return part + ".";
}
}  // namespace

std::vector<std::string> findings(const Analysis& a) {
  std::vector<std::string> parts;
  add_search(a, parts);
  add_overfit(a, parts);
  add_time_to_loss(a, parts);
  add_ladder(a, parts);
  add_ablation(a, parts);
  add_grid(a, parts);
  add_scaling(a, parts);
  add_slower_on_as_many_ranks(a, parts);
  add_programs(a, parts);
  if (parts.empty())
    add_medians(a, parts);  // no claim is possible
  else if (!a.tried)        // the stages of a search have stated it
    add_too_few(a, parts);
  add_quality(a, parts);
  add_failures(a, parts);
  if (parts.empty()) parts.emplace_back("nothing was measured");
  if (a.missing_runs > 0)
    parts.front() = std::to_string(a.missing_runs) + (a.missing_runs == 1 ? " run has" : " runs have") +
                    " no result yet; so far: " + parts.front();
  for (std::string& part : parts) part = sentence(a, std::move(part));
  return parts;
}

std::string finding_text(const Analysis& a) { return join(a.findings, " "); }
}  // namespace optrush
