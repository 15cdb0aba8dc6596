#include <algorithm>
#include <cmath>

#include "report/chart_parts.h"
#include "report/format.h"
#include "report/grid.h"
#include "report/roofline.h"
#include "report/writers.h"

namespace optrush {
namespace {
constexpr int kWidth = 560;
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
          {"width", kWidth},
          {"padding", {{"left", margin}, {"right", margin}, {"top", 12}, {"bottom", 12}}},
          {"data", {{"values", std::move(values)}}},
          {"layer", std::move(layers)},
          {"config", chart_config()}};
}

Json rung_axis(const Analysis& a) {
  std::vector<const Row*> rows;
  for (const Row& row : a.rows) rows.push_back(&row);
  return rung_axis(rows);
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

Json legend_below(const Json& title) {
  return {{"title", title}, {"orient", "bottom"}, {"columns", 5}, {"columnPadding", 34}};
}

std::vector<Chart> make_charts(const Analysis& a) {
  std::vector<Chart> charts;
  const auto any = [&](auto&& shows) { return std::ranges::any_of(a.rows, shows); };
  if (any([](const Row& row) { return row.ok() && row.tokens_per_second; })) {
    for (const Family& family : families_of(a)) charts.push_back({family.chart, speed_chart(a, family.rows)});
    charts.push_back({"throughput", throughput_chart(a)});
  }
  if (!a.scaling.empty()) charts.push_back({"scaling", scaling_chart(a)});
  for (const Grid& grid : grids_of(a))
    if (auto spec = grid_chart(a, grid)) charts.push_back({grid.chart, std::move(*spec)});
  if (auto spec = roofline_chart(a)) charts.push_back({"roofline", std::move(*spec)});
  if (any([](const Row& row) { return row.memory.allocated.has_value(); }))
    charts.push_back({"memory", memory_chart(a)});
  if (any([](const Row& row) { return row.final_loss && std::isfinite(*row.final_loss); }))
    charts.push_back({"loss", loss_chart(a)});
  return charts;
}
}  // namespace optrush
