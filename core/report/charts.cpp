#include <algorithm>
#include <cmath>
#include <limits>

#include "report/chart_parts.h"
#include "report/format.h"
#include "report/grid.h"
#include "report/roofline.h"
#include "report/writers.h"

namespace optrush {
namespace {
constexpr double kWiderFont =
    0.18;  ///< how much wider a reader's font may be than the one that was measured with

/// Space for the longest name in a wider font.
int margin_for_names(const Analysis& a) {
  constexpr size_t kCharacter = 7;  // pixels
  size_t longest = 0;
  for (const Row& row : a.rows) longest = std::max(longest, kCharacter * characters(row.name));
  return 12 + static_cast<int>(kWiderFont * static_cast<double>(std::min<size_t>(longest, kNameWidth)));
}
}  // namespace

Json chart_of(const Analysis& a, const std::string& title, const std::string& subtitle, Json values,
              Json layers) {
  const int margin = margin_for_names(a);
  return {{"$schema", "https://vega.github.io/schema/vega-lite/v5.json"},
          {"title", {{"text", a.experiment.name + ": " + title}, {"subtitle", subtitle}}},
          {"width", kChartWidth},
          {"padding", {{"left", margin}, {"right", margin}, {"top", 12}, {"bottom", 12}}},
          {"data", {{"values", std::move(values)}}},
          {"layer", std::move(layers)},
          {"config", chart_config()}};
}

Json chart_of_panels(const Analysis& a, const std::string& title, const std::string& subtitle, Json values,
                     Json panels) {
  Json spec = chart_of(a, title, subtitle, std::move(values), Json::array());
  spec.erase("layer");
  spec.erase("width");
  spec["vconcat"] = std::move(panels);
  return spec;
}

Json rung_axis(const std::vector<const Row*>& rows) {
  Json names = Json::array();
  for (const Row* row : rows) names.push_back(row->name);
  return {{"field", "rung"},
          {"type", "nominal"},
          {"sort", names},
          {"title", nullptr},
          {"axis", {{"labelLimit", kNameWidth}, {"domain", false}, {"ticks", false}, {"labelPadding", 8}}}};
}

Json quantity(const std::string& field, const std::string& title) {
  return {{"field", field},
          {"type", "quantitative"},
          {"title", title},
          {"axis",
           {{"labelFlush", false}, {"labelOverlap", "greedy"}, {"labelSeparation", 16}, {"tickCount", 6}}}};
}

Json step_axis(const Json& values) {
  double first = std::numeric_limits<double>::infinity(), last = -first;
  for (const auto& value : values)
    if (const auto step = value.find("step"); step != value.end()) {
      first = std::min(first, step->get<double>());
      last = std::max(last, step->get<double>());
    }
  if (first > last) first = last = 0;
  constexpr double kMostTicks = 15;
  double stride = 1;
  for (int i = 0; (last - first) / stride > kMostTicks; ++i) stride *= i % 3 == 1 ? 2.5 : 2;  // 2, 5, 10, 20
  Json ticks = Json::array();
  for (double tick = std::ceil(first / stride) * stride; tick <= last; tick += stride) ticks.push_back(tick);
  return {{"field", "step"},
          {"type", "quantitative"},
          {"title", "step"},
          {"scale", {{"domain", {first, last}}, {"nice", false}, {"padding", 8}}},
          {"axis", {{"values", ticks}, {"format", ",d"}, {"labelFlush", false}}}};
}

Json target_line(double target) {
  const Json y = {{"datum", target}};
  return {
      // once, and not for each point of the curves
      {"data", {{"values", {Json::object()}}}},
      {"layer",
       {{{"mark", {{"type", "rule"}, {"strokeDash", {6, 4}}, {"color", kMuted}}}, {"encoding", {{"y", y}}}},
        {{"mark",
          {{"type", "text"},
           {"align", "left"},
           {"dx", 4},
           {"dy", -7},
           {"color", kMuted},
           {"text", "target " + exact_number(target)}}},
         {"encoding", {{"y", y}, {"x", {{"value", 0}}}}}}}}};
}

Json legend_below(const Json& title) {
  return {{"title", title}, {"orient", "bottom"}, {"columns", 5}, {"columnPadding", 34}};
}

namespace {
Json by(const std::string& field, const std::vector<std::string>& names, const Json& range) {
  return {{"field", field},
          {"type", "nominal"},
          {"scale", {{"domain", names}, {"range", range}}},
          {"legend",
           {{"title", nullptr},
            {"labelLimit", kNameWidth},
            {"symbolType", "stroke"},
            {"symbolStrokeWidth", 2.5},
            {"symbolSize", 260},
            {"symbolLimit", 60}}}};
}
}  // namespace

Json colour_by(const std::string& field, const std::vector<std::string>& names) {
  Json range = Json::array();
  for (size_t i = 0; i < names.size(); ++i) range.push_back(kPalette[i % kPalette.size()]);
  return by(field, names, range);
}

Json dash_by(const std::string& field, const std::vector<std::string>& names) {
  static const std::vector<Json> kDashes = {{1, 0}, {5, 3}, {2, 2}, {8, 3, 2, 3}};
  Json range = Json::array();
  for (size_t i = 0; i < names.size(); ++i) range.push_back(kDashes[i / kPalette.size() % kDashes.size()]);
  return by(field, names, range);
}

Json strips(const std::string& field, const std::vector<std::string>& names, Json layers) {
  constexpr int kHeight = 40;
  return {
      {"facet",
       {{"row",
         {{"field", field},
          {"type", "nominal"},
          {"sort", names},
          {"title", nullptr},
          {"header",
           {{"labelAngle", 0}, {"labelAlign", "left"}, {"labelPadding", 24}, {"labelLimit", kNameWidth}}}}}}},
      {"spacing", 16},
      {"spec", {{"width", kChartWidth}, {"height", kHeight}, {"layer", std::move(layers)}}}};
}

std::vector<Chart> make_charts(const Analysis& a) {
  std::vector<Chart> charts;
  const auto families = families_of(a);
  const auto of_families = [&](const std::string& name, auto&& shows, auto&& draw) {
    for (const Family& family : families)
      if (std::ranges::any_of(family.rows, shows))
        charts.push_back({name + family.suffix, draw(a, family.rows)});
  };
  const auto has_speed = [](const Row* row) { return row->ok() && row->tokens_per_second; };
  of_families("speed", has_speed, speed_chart);
  if (!a.scaling.empty()) charts.push_back({"scaling", scaling_chart(a)});
  for (const Grid& grid : grids_of(a))
    if (auto spec = grid_chart(a, grid)) charts.push_back({grid.chart, std::move(*spec)});
  if (auto spec = roofline_chart(a)) charts.push_back({"roofline", std::move(*spec)});
  of_families(
      "memory", [](const Row* row) { return row->memory.allocated.has_value(); }, memory_chart);
  of_families(
      "loss", [](const Row* row) { return row->final_loss && std::isfinite(*row->final_loss); }, loss_chart);
  for (const Family& family : families)
    if (!rows_over_time(a, family.rows).empty())
      charts.push_back({"time" + family.suffix, time_chart(a, family.rows)});
  of_families("throughput", has_speed, throughput_chart);
  return charts;
}
}  // namespace optrush
