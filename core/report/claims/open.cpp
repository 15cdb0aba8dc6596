// Why there is no claim, and what would allow one.
#include <algorithm>
#include <cmath>
#include <filesystem>

#include "analysis/numbers/format.h"
#include "base/text.h"
#include "report/claims/claims.h"

namespace optrush {
namespace {
bool is_compared(const Row& row) { return row.base.speed && !row.base.speed->same_run; }

/// "A (1.02x as fast as base in 2 rounds)"
std::string seen(const Row& row) {
  const Ratio& speed = *row.base.speed;
  return name_in_text(row.name) + " (" + ratio_only(speed.value) + " as fast as " +
         name_in_text(row.base.name) + " in " + counted(speed.rounds, "round") + ")";
}

/// A training without a comparison.
std::string alone(const Row& row) {
  std::string text = name_in_text(row.name) + " trains " + grouped(*row.tokens_per_second) + " tokens/s";
  if (row.final_loss) text += " to a training loss of " + fixed(*row.final_loss, 4);
  if (!row.validation.empty()) text += " and a validation loss of " + fixed(row.validation.back().loss, 4);
  return text + ", in " + counted(row.steps.size(), "step");
}

std::string claim_needs(const Analysis& a) {
  if (a.experiment.until) return would_allow_a_claim(seconds_to_claims(a));
  return "--resume --rounds " + std::to_string(kMinRounds) + " would allow a claim, in " +
         about_time(seconds_to_claims(a));
}
}  // namespace

std::string would_allow_a_claim(double seconds) {
  constexpr double kMargin = 1.25;
  const double needed = kMargin * seconds;
  const auto up = [&](double unit) { return fixed(std::max(1.0, std::ceil(needed / unit)), 0); };
  return about_time(seconds) + " more would allow a claim (--resume --at-most " +
         (needed <= 90     ? up(1) + "s"
          : needed <= 5400 ? up(60) + "m"
                           : up(3600) + "h") +
         ")";
}

void add_open(const Analysis& a, Claims& claims) {
  const Rows rows = select(a, [](const Row& row) { return row.tokens_per_second.has_value(); });
  if (rows.empty()) return;
  const Rows rivals = select(
      a, [&](const Row& row) { return row.group != "external" && is_rival(a, row) && is_compared(row); });
  const auto value = [](const Row* row) {
    return std::pair(row->base.speed->interval.has_value(), row->base.speed->value);
  };
  const Row* best = rivals.empty() ? nullptr : *std::ranges::max_element(rivals, {}, value);
  std::string text =
      "no rung that trains the base's problem as well succeeded in the same round, so there is no claim";
  if (a.variants.size() == 1)
    text = alone(*rows.front());
  else if (rows.size() == 1)
    text = "only " + name_in_text(rows.front()->name) + " succeeded: " + alone(*rows.front());
  else if (best != nullptr && best->base.speed->interval)
    return add_trains(claims, Weight::answer, relation_of(a, *best, best->base), /*absolute=*/true);
  else if (std::ranges::any_of(rows,
                               [](const Row* row) { return is_compared(*row) && !is_known(row->base); }))
    text = "no claim on speed yet: a claim needs " + std::to_string(kMinRounds) + " rounds; " +
           claim_needs(a) + (best == nullptr ? "" : "; nearest to a gain so far: " + seen(*best));
  add_text(claims, Weight::answer, text);
}

void add_too_few(const Analysis& a, Claims& claims) {
  const Rows rows = select(a, [&](const Row& row) {
    const auto& external = a.variant(row.variant).external;  // with enough rounds no claim names it, either
    return (!external || external->headline) && row.same_as < 0 && row.base.variant >= 0 &&
           is_compared(row) && row.base.speed->rounds < kMinRounds;
  });
  if (rows.empty() || !a.experiment.until) return;
  const auto names = texts_of(rows, [](const Row* row) { return seen(*row); });
  add_text(claims, Weight::detail, "no claim on " + join(names) + ": " + claim_needs(a));
}

std::string missing_warning(const Analysis& a) {
  if (a.missing_runs == 0) return "";
  const auto names =
      texts_of(rows_where(a.rows, [](const Row& row) { return row.missing_rounds > 0; }), &Row::name);
  return counted(a.missing_runs, "run") + (a.missing_runs == 1 ? " has" : " have") +
         " no result yet: " + listed_names(names) + ". To finish: optrush run " +
         std::filesystem::path(a.experiment.script).filename().string() + " --label " + a.experiment.label +
         " --resume, with the other options of the first call.";
}
}  // namespace optrush
