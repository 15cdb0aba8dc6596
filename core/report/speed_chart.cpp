#include <algorithm>

#include "report/chart_parts.h"
#include "report/format.h"
#include "report/verdict.h"

namespace optrush {
namespace {
constexpr const char* kSame = "same problem as the base";
constexpr const char* kAnother = "not like for like (†)";

std::string row_label(const Row& row) {
  if (!row.ok()) {
    const std::string status =
        row.status == Status::oom ? "out of memory" : std::string(to_string(row.status));
    return row.tokens_per_second ? status + " (" + grouped(*row.tokens_per_second) + ")" : status;
  }
  std::string label = or_unknown(row.tokens_per_second, grouped);
  if (row.variant == 0) return label + " · base";
  if (!row.base.speed) return label;
  if (row.base.speed->same_run) return label + " · the base's run";
  label += " · " + fixed(row.base.speed->value, 2) + "x";
  if (!row.base.speed->interval)
    label += " (no claim)";
  else if (!row.base.speed->claim())
    label += " (" + std::string(to_string(verdict_of(*row.base.speed).outcome)) + ")";
  return label + (row.base.differs.empty() ? "" : " †");
}

/// A rung that is not ok claims no speed, so it has no bar.
Json speed_values(const std::vector<const Row*>& rows) {
  Json values = Json::array();
  for (const Row* each : rows) {
    const Row& row = *each;
    Json value = {{"rung", row.name},
                  {"status", std::string(to_string(row.status))},
                  {"label", row_label(row)},
                  {"at", 0}};
    if (row.ok() && row.tokens_per_second) {
      const auto [low, high] = std::ranges::minmax(row.samples);
      value.update({{"speed", *row.tokens_per_second},
                    {"low", low},
                    {"high", high},
                    {"at", high},
                    {"problem", row.base.differs.empty() ? kSame : kAnother},
                    {"previous", or_unknown(row.previous.speed, ratio_text)},
                    {"base", or_unknown(row.base.speed, ratio_text)}});
    }
    values.push_back(value);
  }
  return values;
}
}  // namespace

Json speed_chart(const Analysis& a, const std::vector<const Row*>& rows) {
  const Json y = rung_axis(rows);
  const Json tooltip = {{{"field", "rung"}, {"title", "rung"}},
                        {{"field", "label"}, {"title", "tokens/s"}},
                        {{"field", "previous"}, {"title", "vs previous"}},
                        {{"field", "base"}, {"title", "vs base"}}};
  const bool several = std::ranges::any_of(rows, [](const Row* r) { return !r->base.differs.empty(); });
  const Json colour = {{"field", "problem"},
                       {"type", "nominal"},
                       {"scale", {{"domain", {kSame, kAnother}}, {"range", {kPalette[0], kPalette[4]}}}},
                       {"legend", several ? legend_below(nullptr) : Json()}};
  const Json measured = {{{"filter", "isValid(datum.speed)"}}};
  const auto end_of_whisker = [&](const char* field) {
    return Json{{"transform", measured},
                {"mark", {{"type", "tick"}, {"size", 10}, {"thickness", 1.5}, {"color", kText}}},
                {"encoding", {{"y", y}, {"x", quantity(field, "tokens/s")}}}};
  };
  const Json text_colour = {{"condition", {{"test", "datum.status == 'ok'"}, {"value", kText}}},
                            {"value", kBad}};
  const Json layers = {
      {{"transform", measured},
       {"mark", {{"type", "bar"}, {"cornerRadiusEnd", 2}}},
       {"encoding",
        {{"y", y}, {"x", quantity("speed", "tokens/s")}, {"color", colour}, {"tooltip", tooltip}}}},
      {{"transform", measured},
       {"mark", {{"type", "rule"}, {"strokeWidth", 1.5}, {"color", kText}}},
       {"encoding", {{"y", y}, {"x", quantity("low", "tokens/s")}, {"x2", {{"field", "high"}}}}}},
      end_of_whisker("low"),
      end_of_whisker("high"),
      {{"mark", {{"type", "text"}, {"align", "left"}, {"dx", 8}}},
       {"encoding",
        {{"y", y},
         {"x", quantity("at", "tokens/s")},
         {"text", {{"field", "label"}}},
         {"color", text_colour}}}}};
  Json spec = chart_of(
      a, "tokens/s of each rung",
      "bars: median over rounds; whiskers: slowest and fastest round; x: over the base, round by round",
      speed_values(rows), layers);
  spec["height"] = {{"step", 30}};
  return spec;
}
}  // namespace optrush
