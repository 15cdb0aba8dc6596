#include <algorithm>
#include <set>

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

/// Bytes count in powers of two, everything else in powers of ten.
Json scale(const Span& span, double base, bool zero) {
  if (!span.wide()) return {{"zero", zero}, {"nice", true}};
  return {{"type", "log"}, {"base", base}, {"nice", false}};
}

/// From zero on in steps of a power of two, which are round numbers in KiB, MiB and GiB.
Json byte_ticks(double largest) {
  constexpr double kMostSteps = 6;
  double step = 1;
  while (largest / step > kMostSteps) step *= 2;
  Json ticks = {0.0};
  while (ticks.back() < largest) ticks.push_back(ticks.back().get<double>() + step);
  return ticks;
}

/// Seconds and bytes in units that people read.
const char* label_of(const std::string& column) {
  if (column.ends_with("_time"))
    return "datum.value < 1 ? format(datum.value * 1000, ',.3~r') + ' ms' : format(datum.value, ',.3~r') + ' "
           "s'";
  if (column == "peak_memory" || column == "activations")
    return "datum.value < 1048576 ? format(datum.value / 1024, ',.3~r') + ' KiB' : datum.value < 1073741824 "
           "? "
           "format(datum.value / 1048576, ',.3~r') + ' MiB' : format(datum.value / 1073741824, ',.3~r') + ' "
           "GiB'";
  return column.ends_with("_share") || column == "mfu" || column == "hfu" ? "format(datum.value, '.0%')"
                                                                          : "format(datum.value, '.3~s')";
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

Json by_line(const std::vector<std::string>& lines, const Json& range) {
  return {{"field", "line"},
          {"type", "nominal"},
          {"scale", {{"domain", lines}, {"range", range}}},
          {"legend",
           {{"title", nullptr},
            {"labelLimit", kNameWidth},
            {"symbolType", "stroke"},
            {"symbolStrokeWidth", 2.5},
            {"symbolSize", 260}}}};
}

Json panel(const Grid& grid, const Panels& panels, const std::string& column, const Span& y,
           const Json& ticks) {
  Json colours = Json::array(), dashes = Json::array();
  for (size_t i = 0; i < panels.lines.size(); ++i) {
    colours.push_back(kPalette[i % kPalette.size()]);
    dashes.push_back(i < kPalette.size() ? Json{1, 0} : Json{4, 2});
  }
  const bool bytes = column == "peak_memory" || column == "activations";
  const std::string title = std::ranges::find(grid_columns(), column, &GridColumn::name)->title;
  Json y_scale = scale(y, bytes ? 2 : 10, true);
  Json y_axis = {{"labelExpr", label_of(column)}, {"tickCount", 6}};
  if (bytes && !y.wide()) {
    y_axis["values"] = byte_ticks(y.high);
    y_scale = {{"domain", {0, y_axis["values"].back()}}};
  }
  Json x_axis = {{"format", ",d"}, {"labelFlush", false}, {"labelOverlap", "greedy"}};
  if (!ticks.empty()) x_axis["values"] = ticks;
  return {
      {"width", 560},
      {"height", kPanelHeight},
      {"transform", {{{"filter", "datum.column === '" + column + "'"}}}},
      {"mark", {{"type", "line"}, {"strokeWidth", 2}, {"point", {{"size", 36}}}}},
      {"encoding",
       {{"x",
         {{"field", "x"},
          {"type", "quantitative"},
          {"title", grid.part->view.x},
          {"scale", scale(panels.x, 2, false)},
          {"axis", x_axis}}},
        {"y",
         {{"field", "y"}, {"type", "quantitative"}, {"title", title}, {"scale", y_scale}, {"axis", y_axis}}},
        {"color", by_line(panels.lines, colours)},
        {"strokeDash", by_line(panels.lines, dashes)},
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
  for (const auto& [column, span] : panels.y) list.push_back(panel(grid, panels, column, span, ticks));
  Json spec = chart_of(a, "over " + grid.part->view.x, "medians over rounds", panels.values, Json::array());
  spec.erase("layer");
  spec.erase("width");
  spec["vconcat"] = std::move(list);
  return spec;
}
}  // namespace optrush
