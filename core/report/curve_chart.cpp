#include <algorithm>
#include <cmath>
#include <limits>

#include "report/chart_parts.h"

namespace optrush {
namespace {
/// One line a rung over its steps.
Json curve_chart(const Analysis& a, const std::string& title, const std::string& subtitle,
                 const std::string& unit, Json values, Json y_scale) {
  std::vector<std::string> drawn;
  for (const auto& value : values)
    if (drawn.empty() || drawn.back() != value.at("rung")) drawn.push_back(value.at("rung"));
  Json range = Json::array(), dashes = Json::array();
  for (size_t i = 0; i < drawn.size(); ++i) {
    range.push_back(kPalette[i % kPalette.size()]);
    dashes.push_back(i < kPalette.size() ? Json{1, 0}
                                         : Json{4, 2});  // the colours again, told apart by dashes
  }
  const Json legend = {{"title", nullptr},
                       {"labelLimit", kNameWidth},
                       {"symbolType", "stroke"},
                       {"symbolStrokeWidth", 2.5},
                       {"symbolSize", 260}};
  const auto by_rung = [&](const Json& out) {
    return Json{{"field", "rung"},
                {"type", "nominal"},
                {"scale", {{"domain", drawn}, {"range", out}}},
                {"legend", legend}};
  };
  const Json tooltip = {{{"field", "rung"}, {"title", "rung"}},
                        {{"field", "step"}, {"title", "step"}},
                        {{"field", "value"}, {"title", unit}, {"format", ",.6~g"}}};
  const Json layers = {
      {{"mark", {{"type", "line"}, {"strokeWidth", 2}, {"point", {{"size", 22}}}}},
       {"encoding",
        {{"x",
          {{"field", "step"},
           {"type", "quantitative"},
           {"title", "step"},
           {"axis", {{"tickMinStep", 1}, {"format", "d"}}}}},
         {"y",
          {{"field", "value"}, {"type", "quantitative"}, {"title", unit}, {"scale", std::move(y_scale)}}},
         {"color", by_rung(range)},
         {"strokeDash", by_rung(dashes)},
         {"tooltip", tooltip}}}}};
  Json spec = chart_of(a, title, subtitle, std::move(values), layers);
  spec["height"] = 300;
  return spec;
}

Json curve_values(const Analysis& a, auto&& wanted, auto&& value_of) {
  Json values = Json::array();
  for (const Row& row : a.rows)
    if (wanted(row))
      for (const StepResult& step : row.steps)
        if (const std::optional<double> value = value_of(step); value && std::isfinite(*value))
          values.push_back({{"rung", row.name}, {"step", step.step}, {"value", *value}});
  return values;
}
}  // namespace

std::vector<LossLine> loss_lines(const Analysis& a) {
  // What the picture shows from bottom to top.
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const Row& row : a.rows)
    for (const StepResult& step : row.steps)
      if (std::isfinite(step.loss)) {
        low = std::min(low, step.loss);
        high = std::max(high, step.loss);
      }
  const auto covers = [&](const Row& one, const Row& other) {
    constexpr double kApart = 0.02;
    return one.ok() && other.ok() &&
           std::ranges::equal(one.steps, other.steps, [&](const StepResult& x, const StepResult& y) {
             return std::abs(x.loss - y.loss) <= kApart * (high - low);
           });
  };
  std::vector<LossLine> lines;
  for (const Row& row : a.rows) {
    if (row.steps.empty()) continue;
    const auto line =
        std::ranges::find_if(lines, [&](const LossLine& drawn) { return covers(*drawn.row, row); });
    if (line == lines.end())
      lines.push_back({&row, {}});
    else
      line->others.push_back(&row);
  }
  return lines;
}

/// A rung that broke the gate shows here how.
Json loss_chart(const Analysis& a) {
  Json values = Json::array();
  for (const LossLine& line : loss_lines(a)) {
    const size_t others = line.others.size();
    const std::string name =
        line.row->name +
        (others == 0 ? "" : " and " + std::to_string(others) + (others == 1 ? " other" : " others"));
    for (const StepResult& step : line.row->steps)
      if (std::isfinite(step.loss))
        values.push_back({{"rung", name}, {"step", step.step}, {"value", step.loss}});
  }
  return curve_chart(a, "loss", "every step of the first round, warm-up included", "loss", std::move(values),
                     {{"zero", false}});
}

Json throughput_chart(const Analysis& a) {
  const auto ok = [](const Row& row) { return row.ok(); };
  Json values = curve_values(a, ok, [](const StepResult& s) {
    return s.timed && s.seconds > 0 ? std::optional(static_cast<double>(s.tokens) / s.seconds) : std::nullopt;
  });
  return curve_chart(a, "tokens/s of each step", "timed steps of the first round", "tokens/s",
                     std::move(values), {{"zero", true}});
}
}  // namespace optrush
