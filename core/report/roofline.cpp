// The roofline model (Williams, Waterman, Patterson 2009): a phase that needs few FLOPs for each byte is
// limited by the memory, the others by arithmetic.
#include "report/roofline.h"

#include <algorithm>
#include <set>

#include "report/axis_ticks.h"
#include "report/chart_parts.h"
#include "report/format.h"

namespace optrush {
namespace {
std::string dtype_of(const Analysis& a, const Row& row) { return a.spec(row).train.dtype; }

void add_points(const Analysis& a, const Row& row, std::vector<RooflinePoint>& points) {
  const std::string dtype = dtype_of(a, row);
  const auto roof = roof_of(a.context, dtype);
  if (!row.ok() || !row.work || !roof) return;
  for (const auto& [name, seconds] : row.phases) {
    const bool forward = name == "forward";
    if ((!forward && name != "backward") || seconds.value_or(0) <= 0) continue;
    const double bytes = forward ? row.work->forward_bytes : row.work->backward_bytes;
    const double flops = forward ? row.work->forward_flops : row.work->backward_flops;
    points.push_back({&row, name, dtype, flops / bytes, flops / *seconds, *roof});
  }
}

struct Axes {
  Json x, y;
};

Axes axes_of(const std::vector<RooflinePoint>& points) {
  const auto [left, right] = std::ranges::minmax(points, {}, &RooflinePoint::intensity);
  const auto [low, high] = std::ranges::minmax(points, {}, &RooflinePoint::flops);
  double first = left.intensity, last = right.intensity, top = high.flops;
  for (const RooflinePoint& point : points) {
    first = std::min(first, point.roof.ridge());
    last = std::max(last, point.roof.ridge());
    top = std::max(top, point.roof.flops);
  }
  const auto axis = [](const char* field, const char* title, const std::vector<double>& ticks) {
    return Json{{"field", field},
                {"type", "quantitative"},
                {"title", title},
                {"scale", {{"type", "log"}, {"domain", {ticks.front(), ticks.back()}}}},
                {"axis", {{"format", "~s"}, {"values", ticks}, {"labelFlush", false}}}};
  };
  return {axis("x", "FLOPs a byte", log_ticks(first, last)), axis("y", "FLOP/s", log_ticks(low.flops, top))};
}

Json roof_layer(const std::vector<RooflinePoint>& points, const Axes& axes) {
  const auto& ends = axes.x.at("scale").at("domain");
  Json values = Json::array();
  std::set<std::string> drawn;
  for (const auto& point : points) {
    if (!drawn.insert(point.dtype).second) continue;
    for (const double x : {ends.front().get<double>(), point.roof.ridge(), ends.back().get<double>()})
      values.push_back({{"roof", point.dtype}, {"x", x}, {"y", point.roof.at(x)}});
  }
  return {{"data", {{"values", values}}},
          {"mark", {{"type", "line"}, {"color", kMuted}, {"strokeWidth", 1.5}, {"clip", true}}},
          {"encoding",
           {{"x", axes.x},
            {"y", axes.y},
            {"detail", {{"field", "roof"}}},
            {"tooltip", {{{"field", "roof"}, {"title", "limits of"}}}}}}};
}

/// Colours and shapes tell the rungs apart.
Json roofline_panel(const std::vector<RooflinePoint>& points, const Axes& axes, const std::string& phase) {
  static const std::vector<std::string> kShapes = {"circle", "square",        "triangle-up",  "diamond",
                                                   "cross",  "triangle-down", "triangle-left"};
  std::vector<std::string> names;
  Json shapes = Json::array();
  for (const RooflinePoint& point : points)
    if (std::ranges::find(names, point.row->name) == names.end()) names.push_back(point.row->name);
  for (size_t i = 0; i < names.size(); ++i) shapes.push_back(kShapes[i % kShapes.size()]);
  Json colour = colour_by("rung", names);
  colour["legend"] = {{"title", nullptr}, {"labelLimit", kNameWidth}, {"symbolLimit", 60}};
  Json shape = colour;
  shape["scale"]["range"] = shapes;
  const Json marks = {
      {"transform", {{{"filter", "datum.phase === '" + phase + "'"}}}},
      {"mark", {{"type", "point"}, {"filled", true}, {"size", 70}, {"opacity", 1}}},
      {"encoding",
       {{"x", axes.x},
        {"y", axes.y},
        {"color", colour},
        {"shape", shape},
        {"tooltip",
         {{{"field", "rung"}}, {{"field", "phase"}}, {{"field", "share"}, {"title", "of the limit"}}}}}}};
  return {{"title", {{"text", phase}, {"fontSize", 13}, {"offset", 16}}},
          {"width", kChartWidth},
          {"height", 260},
          {"layer", {roof_layer(points, axes), marks}}};
}
}  // namespace

double Roof::at(double intensity) const { return std::min(flops, intensity * bandwidth); }

std::optional<Roof> roof_of(const Json& context, const std::string& dtype) {
  const auto bandwidth = context.find("bandwidth_bytes_per_second");
  const auto peak = peak_of_dtype(context, dtype);
  if (bandwidth == context.end() || !bandwidth->is_number() || !peak) return std::nullopt;
  return Roof{*peak, bandwidth->get<double>()};
}

std::vector<RooflinePoint> roofline_points(const Analysis& a) {
  std::vector<RooflinePoint> points;
  for (const Row& row : a.rows) add_points(a, row, points);
  return points;
}

Section roofline_section(const Analysis& a) {
  Section section{.title = "Roofline", .chart = "roofline"};
  const auto points = roofline_points(a);
  if (points.empty()) return section;
  section.caption = "FLOP/s over FLOPs a byte, both logarithmic; the line is what the machine allows.";
  const Roof& roof = points.front().roof;
  section.paragraphs = {
      "Measured limits: " + grouped(roof.bandwidth / 1e9) + " GB/s and, in " + points.front().dtype + ", " +
      flops_rate(roof.flops) + ", which meet at " + grouped(roof.ridge()) +
      " FLOPs a byte. What needs fewer is bound by memory. Bytes and FLOPs are those that any "
      "implementation needs; a share above 100 % means that a cache served them, or that other programs "
      "slowed the machine while its limits were measured."};
  Table table{{{"rung"},
               {"phase"},
               {"FLOPs a byte", true},
               {"bound by"},
               {"GB/s", true},
               {"FLOP/s", true},
               {"of the limit", true}},
              {}};
  for (const auto& point : points)
    table.rows.push_back({point.row->name, point.phase, grouped(point.intensity),
                          point.memory_bound() ? "memory" : "arithmetic",
                          fixed(point.flops / point.intensity / 1e9, 2), flops_rate(point.flops),
                          percent(point.share())});
  section.table = std::move(table);
  return section;
}

std::optional<Json> roofline_chart(const Analysis& a) {
  const auto points = roofline_points(a);
  if (points.empty()) return std::nullopt;
  Json values = Json::array();
  for (const auto& point : points)
    values.push_back({{"rung", point.row->name},
                      {"phase", point.phase},
                      {"x", point.intensity},
                      {"y", point.flops},
                      {"share", percent(point.share())}});
  const Axes axes = axes_of(points);
  Json panels = Json::array();
  for (const char* phase : {"forward", "backward"})
    if (std::ranges::find(points, phase, &RooflinePoint::phase) != points.end())
      panels.push_back(roofline_panel(points, axes, phase));
  return chart_of_panels(a, "roofline", "medians over rounds; the line is what this machine allows",
                         std::move(values), std::move(panels));
}
}  // namespace optrush
