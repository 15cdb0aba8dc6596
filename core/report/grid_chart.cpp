#include <algorithm>
#include <cmath>
#include <set>

#include "report/axis_ticks.h"
#include "report/chart_parts.h"
#include "report/grid.h"

namespace optrush {
namespace {
constexpr double kWideSpan = 8;  ///< largest over smallest from which on an axis is logarithmic
constexpr int kPanelHeight = 220;

struct Span {
  double low = 0, high = 0;
  bool any = false;
  void add(double value) {
    low = any ? std::min(low, value) : value;
    high = any ? std::max(high, value) : value;
    any = true;
  }
  bool wide() const { return low > 0 && high / low >= kWideSpan; }
};

/// Seconds and bytes in units that people read.
const char* axis_label(const std::string& column) {
  if (column.ends_with("_time") || column == "time_to_loss")
    return "datum.value < 1 ? format(datum.value * 1000, ',.3~r') + ' ms' : format(datum.value, ',.3~r') + ' "
           "s'";
  if (column == "peak_memory" || column == "activations")
    return "datum.value == 0 ? '0' : datum.value < 1048576 ? format(datum.value / 1024, ',.3~r') + ' KiB' : "
           "datum.value < 1073741824 "
           "? "
           "format(datum.value / 1048576, ',.3~r') + ' MiB' : format(datum.value / 1073741824, ',.3~r') + ' "
           "GiB'";
  return column.ends_with("_share") || column == "mfu" || column == "hfu"
             ? "format(datum.value, '.0%')"
             : "format(datum.value, datum.value < 1 ? '.3~g' : '.3~s')";
}

struct Panels {
  Json values = Json::array();
  std::vector<std::string> lines;  ///< in the order of the rows
  Span x;
  std::vector<std::pair<std::string, Span>> y;  ///< by column
};

Panels collect(const Analysis& a, const Grid& grid) {
  Panels panels;
  for (const auto& column : grid.part->view.curves) {
    Span span;
    for (const auto& point : grid.points) {
      const auto x = grid.x(a, point), y = quantity_of(column).value(a, *point.row);
      if (!x || !y || !point.row->ok()) continue;
      const std::string line = grid.line(point);
      if (std::ranges::find(panels.lines, line) == panels.lines.end()) panels.lines.push_back(line);
      panels.values.push_back(
          {{"line", line}, {"x", *x}, {"y", *y}, {"column", column}, {"text", quantity_of(column).text(*y)}});
      panels.x.add(*x);
      span.add(*y);
    }
    if (span.any) panels.y.emplace_back(column, span);
  }
  return panels;
}

bool counts_bytes(const std::string& column) { return column == "peak_memory" || column == "activations"; }

/// Scale and ticks of what a panel shows.
std::pair<Json, std::vector<double>> y_scale(const std::string& column, const Span& span) {
  const bool bytes = counts_bytes(column);
  if (span.wide()) {
    auto ticks = bytes ? log_byte_ticks(span.low, span.high) : log_ticks(span.low, span.high);
    Json scale = {{"type", "log"}, {"domain", {ticks.front(), ticks.back()}}};
    return {std::move(scale), std::move(ticks)};
  }
  // From zero on, but for losses, whose differences are small.
  const bool loss = column == "loss" || column == "validation_loss";
  if (!bytes) return {{{"zero", !loss}, {"nice", true}}, {}};
  auto ticks = byte_ticks(span.high);
  Json scale = {{"domain", {0, ticks.back()}}};
  return {std::move(scale), std::move(ticks)};
}

Json grid_panel(const Grid& grid, const Panels& panels, const std::string& column, const Span& y,
                const Json& ticks) {
  const std::string title = std::ranges::find(grid_columns(), column, &GridColumn::name)->title;
  const auto [scale, y_ticks] = y_scale(column, y);
  Json y_axis = {{"labelExpr", axis_label(column)}};
  y_ticks.empty() ? y_axis["tickCount"] = 6 : y_axis["values"] = y_ticks;
  const bool whole = std::ranges::all_of(panels.values, [](const Json& value) {
    const double x = value.at("x");
    return x == std::floor(x);
  });
  Json x_axis = {{"format", whole ? ",d" : "~g"}, {"labelFlush", false}, {"labelOverlap", "greedy"}};
  if (!ticks.empty()) x_axis["values"] = ticks;
  const Json x_scale = panels.x.wide()
                           ? Json{{"type", "log"}, {"base", 2}, {"domain", {panels.x.low, panels.x.high}}}
                           : Json{{"zero", false}, {"nice", true}};
  return {
      {"width", kChartWidth},
      {"height", kPanelHeight},
      {"transform", {{{"filter", "datum.column === '" + column + "'"}}}},
      {"mark", {{"type", "line"}, {"strokeWidth", 2}, {"point", {{"size", 36}}}}},
      {"encoding",
       {{"x",
         {{"field", "x"},
          {"type", "quantitative"},
          {"title", grid.part->view.x},
          {"scale", x_scale},
          {"axis", x_axis}}},
        {"y",
         {{"field", "y"}, {"type", "quantitative"}, {"title", title}, {"scale", scale}, {"axis", y_axis}}},
        {"color", colour_by("line", panels.lines)},
        {"strokeDash", dash_by("line", panels.lines)},
        {"tooltip",
         {{{"field", "line"}, {"title", "choice"}},
          {{"field", "x"}, {"title", grid.part->view.x}},
          {{"field", "text"}, {"title", title}}}}}}};
}
}  // namespace

std::optional<Json> grid_chart(const Analysis& a, const Grid& grid) {
  const Panels panels = collect(a, grid);
  std::set<double> measured;
  for (const auto& value : panels.values) measured.insert(value.at("x").get<double>());
  if (measured.size() < 2) return std::nullopt;
  constexpr size_t kMostTicks = 10;  // at each measured point, as long as they can be told apart
  const Json ticks = measured.size() <= kMostTicks ? Json(measured) : Json::array();
  Json list = Json::array();
  for (const auto& [column, span] : panels.y) list.push_back(grid_panel(grid, panels, column, span, ticks));
  return chart_of_panels(a, "over " + grid.part->view.x, "medians over rounds", panels.values,
                         std::move(list));
}
}  // namespace optrush
