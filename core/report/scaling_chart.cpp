#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "report/chart_parts.h"
#include "report/format.h"

namespace optrush {
namespace {
/// In the legend, where labels can't cover each other: "data parallel, weak: 88 % at 4 ranks".
std::string series_label(const ScalingSeries& series) {
  const ScalingPoint& largest = series.largest();
  return series.title() + ": " + percent(largest.efficiency, 0) + " at " + std::to_string(largest.ranks) +
         " ranks";
}

/// The series stand side by side, so that their intervals don't cover each other.
double place_of(size_t series, size_t count, int64_t ranks) {
  constexpr double kApart = 0.02;  // of a doubling
  const double steps = static_cast<double>(series) - (static_cast<double>(count) - 1) / 2;
  return static_cast<double>(ranks) * std::exp2(kApart * steps);
}

Json scaling_values(const Analysis& a) {
  Json values = Json::array();
  for (size_t i = 0; i < a.scaling.size(); ++i)
    for (const ScalingPoint& point : a.scaling[i].points) {
      const ScalingSeries& series = a.scaling[i];
      const double speedup = point.speedup ? point.speedup->value : 1;
      Json value = {{"series", series_label(series)},
                    {"ranks", point.ranks},
                    {"place", place_of(i, a.scaling.size(), point.ranks)},
                    {"speedup", speedup},
                    {"rung", a.row(point.variant)->name},
                    {"text", or_unknown(point.speedup, ratio_text)},
                    {"efficiency", percent(point.efficiency)}};
      if (point.speedup && point.speedup->interval)
        value.update({{"low", point.speedup->interval->low}, {"high", point.speedup->interval->high}});
      values.push_back(value);
    }
  return values;
}

/// How much more hardware there is, from the fewest ranks on; a line for all series that start with these.
Json ideal_of(const Analysis& a) {
  std::map<int64_t, std::map<int64_t, double>> lines;
  for (const ScalingSeries& series : a.scaling)
    for (const ScalingPoint& point : series.points) {
      double& growth = lines[series.points.front().ranks][point.ranks];
      growth = std::max(growth, point.growth);
    }
  Json values = Json::array();
  for (const auto& [fewest, growths] : lines)
    for (const auto& [ranks, growth] : growths)
      values.push_back({{"line", fewest}, {"place", ranks}, {"speedup", growth}});
  return values;
}

std::set<int64_t> sizes_of(const Analysis& a) {
  std::set<int64_t> sizes;
  for (const ScalingSeries& series : a.scaling)
    for (const ScalingPoint& point : series.points) sizes.insert(point.ranks);
  return sizes;
}

/// Powers of two around every speedup and the ends of its interval.
Json speed_ticks(const Json& values, const Json& ideal) {
  double low = 1, high = 1;
  for (const auto* list : {&values, &ideal})
    for (const auto& value : *list)
      for (const char* field : {"speedup", "low", "high"}) {
        if (!value.contains(field)) continue;
        low = std::min(low, value.at(field).get<double>());
        high = std::max(high, value.at(field).get<double>());
      }
  double tick = 1;
  while (tick > low) tick /= 2;
  Json ticks = {tick};
  while (tick < high) ticks.push_back(tick *= 2);
  return ticks;
}
}  // namespace

Json scaling_chart(const Analysis& a) {
  const Json values = scaling_values(a), ideal = ideal_of(a), ticks = speed_ticks(values, ideal);
  std::vector<std::string> titles;
  for (const ScalingSeries& series : a.scaling) titles.push_back(series_label(series));
  const Json x = {{"field", "place"},
                  {"type", "quantitative"},
                  {"title", "ranks"},
                  {"scale", {{"type", "log"}, {"base", 2}, {"nice", false}, {"padding", 24}}},
                  {"axis", {{"values", Json(sizes_of(a))}, {"format", "d"}}}};
  const auto y = [&](const char* field) {
    return Json{
        {"field", field},
        {"type", "quantitative"},
        {"title", "speedup in tokens/s"},
        {"scale", {{"type", "log"}, {"base", 2}, {"nice", false}, {"domain", {ticks.front(), ticks.back()}}}},
        {"axis", {{"values", ticks}, {"labelExpr", "datum.value + 'x'"}}}};
  };
  Json colour = colour_by("series", titles);
  colour["legend"].update({{"orient", "bottom"}, {"columns", 1}});
  const Json tooltip = {{{"field", "series"}, {"title", "series"}},
                        {{"field", "rung"}, {"title", "rung"}},
                        {{"field", "ranks"}, {"title", "ranks"}},
                        {{"field", "text"}, {"title", "speedup"}},
                        {{"field", "efficiency"}, {"title", "efficiency"}}};
  const Json layers = {
      {{"data", {{"values", ideal}}},
       {"mark", {{"type", "line"}, {"strokeDash", {5, 4}}, {"strokeWidth", 1.5}, {"color", kMuted}}},
       {"encoding", {{"x", x}, {"y", y("speedup")}, {"detail", {{"field", "line"}}}}}},
      {{"transform", {{{"filter", "isValid(datum.low)"}}}},
       {"mark", {{"type", "rule"}, {"strokeWidth", 1.5}}},
       {"encoding", {{"x", x}, {"y", y("low")}, {"y2", {{"field", "high"}}}, {"color", colour}}}},
      {{"mark", {{"type", "line"}, {"strokeWidth", 2}, {"point", {{"size", 44}}}}},
       {"encoding", {{"x", x}, {"y", y("speedup")}, {"color", colour}, {"tooltip", tooltip}}}}};
  Json spec = chart_of(a, "tokens/s over ranks",
                       "times those of the fewest ranks; dashed: as much faster as there is more hardware; "
                       "bars: intervals",
                       values, layers);
  spec["height"] = 340;
  return spec;
}
}  // namespace optrush
