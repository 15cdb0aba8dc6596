#include "report/writers/summary.h"

#include <algorithm>

#include "analysis/numbers/format.h"
#include "analysis/numbers/verdict.h"
#include "base/text.h"
#include "report/claims/claims.h"
#include "report/sections/document.h"

namespace optrush {
namespace {
std::optional<SummaryRatio> ratio_of(const Comparison& c) {
  if (!c.speed) return std::nullopt;
  SummaryRatio ratio{.value = c.speed->value,
                     .verdict = std::string(to_string(verdict_of(*c.speed).outcome)),
                     .like_for_like = c.differs.empty()};
  if (c.speed->interval) {
    ratio.low = c.speed->interval->low;
    ratio.high = c.speed->interval->high;
  }
  return ratio;
}

/// For example "1.96x as fast, 54 % less memory".
std::string badge_of(const Analysis& a) {
  const Row* row = result_row(a);
  if (row == nullptr || !row->base.speed) return "no claim";
  const Ratio& speed = *row->base.speed;
  std::string text = speed.claim()
                         ? ratio_only(speed.value) + (row->base.differs.empty() ? " as fast" : " tokens/s")
                         : std::string(to_string(verdict_of(speed).outcome));
  if (const std::string memory = memory_change(row->base.memory); !memory.empty()) text += ", " + memory;
  return text;
}
}  // namespace

Record<SummaryRatio> record_of(const SummaryRatio*) {
  return Record<SummaryRatio>("a ratio")
      .field("value", &SummaryRatio::value, "tokens/s divided by those of the other row", {.required = true})
      .field("low", &SummaryRatio::low, "lower end of its interval; null: too few rounds",
             {.promised = true, .nullable = true})
      .field("high", &SummaryRatio::high, {.promised = true, .nullable = true})
      .field("verdict", &SummaryRatio::verdict,
             {.required = true,
              .schema = {{"enum",
                          {"faster", "slower", "no difference", "undecided", "too few rounds",
                           "the same run"}}}})
      .field("like_for_like", &SummaryRatio::like_for_like, "false: the two rows train different problems",
             {.required = true});
}

Record<SummaryRung> record_of(const SummaryRung*) {
  return Record<SummaryRung>("a rung")
      .field("rung", &SummaryRung::rung, {.required = true})
      .field("status", &SummaryRung::status, {.required = true})
      .field("loss_check", &SummaryRung::loss_check, "as in the report's table: ✓, or what is wrong",
             {.required = true})
      .field("tokens_per_second", &SummaryRung::tokens_per_second, "median over rounds",
             {.promised = true, .nullable = true})
      .field("peak_memory_bytes", &SummaryRung::peak_memory_bytes, "the most bytes that tensors hold",
             {.promised = true, .nullable = true})
      .field("vs_previous", &SummaryRung::vs_previous, "null: nothing to compare with",
             {.promised = true, .nullable = true})
      .field("vs_base", &SummaryRung::vs_base, {.promised = true, .nullable = true})
      .field("memory_vs_base", &SummaryRung::memory_vs_base, "peak memory divided by the base's peak memory",
             {.promised = true, .nullable = true});
}

Record<Summary> record_of(const Summary*) {
  return Record<Summary>("the summary", "summary.json: the answer of a report, for programs that act on it.")
      .field("schema_version", &Summary::schema_version, {.required = true, .schema = {{"const", 1}}})
      .field("experiment", &Summary::experiment, {.required = true})
      .field("label", &Summary::label, {.required = true})
      .field("ok", &Summary::ok, "no rung failed or is broken", {.required = true})
      .field("headline", &Summary::headline, "the answer in one sentence", {.required = true})
      .field("badge", &Summary::badge, "the same in a few words", {.required = true})
      .field("machine", &Summary::machine, {.required = true})
      .field("date", &Summary::date, {.required = true})
      .field("commit", &Summary::commit, {.required = true})
      .field("warnings", &Summary::warnings, "reasons to doubt the answer", {.required = true})
      .field("rungs", &Summary::rungs, {.required = true});
}

Summary summary_of(const Analysis& a) {
  Summary summary{.experiment = a.experiment.name,
                  .label = a.experiment.label,
                  .headline = headline(a),
                  .badge = badge_of(a),
                  .date = context_text(a.context, "date"),
                  .commit = context_text(a.context, "commit"),
                  .machine = machine_text(a.context),
                  .ok = !a.any_failed(),
                  .warnings = warnings_of(a)};
  for (const Row& row : a.rows)
    summary.rungs.push_back({row.name, row.status, loss_check(row), row.tokens_per_second,
                             row.memory.allocated, ratio_of(row.previous), ratio_of(row.base),
                             row.base.memory});
  return summary;
}

std::string summary_line(const Summary& summary) {
  const auto ok = std::ranges::count(summary.rungs, Status::ok, &SummaryRung::status);
  return summary.experiment + ": " + summary.badge + "; " + std::to_string(ok) + " of " +
         counted(summary.rungs.size(), "row") + " ok" + (summary.warnings.empty() ? "" : "; with warnings") +
         "\n";
}
}  // namespace optrush
