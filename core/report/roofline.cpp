// The roofline model (Williams, Waterman, Patterson 2009): a phase that needs few FLOPs for each byte is
// limited by the memory, the others by arithmetic.
#include "report/roofline.h"

#include <algorithm>
#include <set>

#include "report/chart_parts.h"
#include "report/format.h"

namespace optrush {
namespace {
std::string dtype_of(const Analysis& a, const Row& row) {
  return a.variants[static_cast<size_t>(row.variant)].spec.train.dtype;
}

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

Json roof_layer(const std::vector<RooflinePoint>& points) {
  const auto [low, high] = std::ranges::minmax(points, {}, &RooflinePoint::intensity);
  Json values = Json::array();
  std::set<std::string> drawn;
  for (const auto& point : points) {
    if (!drawn.insert(point.dtype).second) continue;
    const double ridge = point.roof.ridge();
    for (const double x : {std::min(low.intensity, ridge) / 2, ridge, std::max(high.intensity, ridge) * 2})
      values.push_back({{"roof", point.dtype}, {"x", x}, {"y", point.roof.at(x)}});
  }
  return {{"data", {{"values", values}}},
          {"mark", {{"type", "line"}, {"color", kMuted}, {"strokeWidth", 1.5}}},
          {"encoding",
           {{"x", {{"field", "x"}, {"type", "quantitative"}}},
            {"y", {{"field", "y"}, {"type", "quantitative"}}},
            {"detail", {{"field", "roof"}}},
            {"tooltip", {{{"field", "roof"}, {"title", "limits of"}}}}}}};
}
}  // namespace

double Roof::at(double intensity) const { return std::min(flops, intensity * bandwidth); }

std::optional<Roof> roof_of(const Json& context, const std::string& dtype) {
  const auto bandwidth = context.find("bandwidth_bytes_per_second");
  const Json::json_pointer peak("/peak/dtype_flops/" + dtype);
  if (bandwidth == context.end() || !bandwidth->is_number() || !context.contains(peak) ||
      !context.at(peak).is_number())
    return std::nullopt;
  return Roof{context.at(peak).get<double>(), bandwidth->get<double>()};
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
  const auto axis = [](const char* field, const char* title, const char* format) {
    return Json{{"field", field},
                {"type", "quantitative"},
                {"title", title},
                {"scale", {{"type", "log"}, {"nice", false}}},
                {"axis", {{"format", format}, {"tickCount", 6}, {"labelOverlap", "greedy"}}}};
  };
  const Json marks = {
      {"mark", {{"type", "point"}, {"filled", true}, {"size", 70}, {"opacity", 0.85}}},
      {"encoding",
       {{"x", axis("x", "FLOPs a byte", "~g")},
        {"y", axis("y", "FLOP/s", "~s")},
        {"color",
         {{"field", "rung"},
          {"type", "nominal"},
          {"sort", nullptr},
          {"scale", {{"range", kPalette}}},
          {"legend", {{"title", nullptr}, {"labelLimit", kNameWidth}, {"symbolLimit", 40}}}}},
        {"shape", {{"field", "phase"}, {"type", "nominal"}, {"legend", {{"title", nullptr}}}}},
        {"tooltip",
         {{{"field", "rung"}}, {{"field", "phase"}}, {{"field", "share"}, {"title", "of the limit"}}}}}}};
  Json spec = chart_of(a, "roofline", "medians over rounds; the line is what this machine allows", values,
                       Json::array({roof_layer(points), marks}));
  spec["height"] = 360;
  return spec;
}
}  // namespace optrush
