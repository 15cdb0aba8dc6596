#include <algorithm>
#include <cmath>
#include <limits>

#include "report/chart_parts.h"
#include "report/format.h"

namespace optrush {
namespace {
bool validates(const std::vector<const Row*>& rows) {
  return std::ranges::any_of(rows, [](const Row* row) { return !row->validation.empty(); });
}

/// The curves, a line for all that can't be told apart. A rung that broke the gate shows here how.
Json curves(const std::vector<const Row*>& rows, double target, Json& values) {
  std::vector<std::string> names;
  for (const LossLine& line : loss_lines(rows)) {
    const size_t others = line.others.size();
    names.push_back(
        line.row->name +
        (others == 0 ? "" : " and " + std::to_string(others) + (others == 1 ? " other" : " others")));
    for (const StepResult& step : line.row->steps)
      if (std::isfinite(step.loss))
        values.push_back({{"line", names.back()}, {"step", step.step}, {"loss", step.loss}});
    for (const ValidationPoint& point : line.row->validation)
      values.push_back({{"line", names.back()}, {"step", point.step}, {"validation", point.loss}});
  }
  const auto layer = [&](const char* field, const char* title, Json mark) {
    const Json tooltip = {{{"field", "line"}, {"title", "rung"}},
                          {{"field", "step"}, {"title", "step"}},
                          {{"field", field}, {"title", title}, {"format", ",.6~g"}}};
    return Json{
        {"transform", {{{"filter", std::string("isValid(datum.") + field + ")"}}}},
        {"mark", std::move(mark)},
        {"encoding",
         {{"x", step_axis(values)},
          {"y",
           {{"field", field}, {"type", "quantitative"}, {"title", "loss"}, {"scale", {{"zero", false}}}}},
          {"color", colour_by("line", names)},
          {"tooltip", tooltip}}}};
  };
  // Among validations a point for every step would hide them.
  const bool validated = validates(rows);
  Json lines = layer("loss", "loss",
                     {{"type", "line"},
                      {"strokeWidth", validated ? 1.5 : 2},
                      {"point", validated ? Json(false) : Json{{"size", 22}}}});
  lines["encoding"]["strokeDash"] = dash_by("line", names);
  const Json marks = layer("validation", "validation loss",
                           {{"type", "point"},
                            {"shape", "diamond"},
                            {"filled", true},
                            {"opacity", 1},
                            {"size", 110},
                            {"stroke", "white"},
                            {"strokeWidth", 1}});
  Json layers = Json::array({std::move(lines)});
  if (validated) layers.push_back(marks);
  if (target > 0) layers.push_back(target_line(target));
  return {{"width", kChartWidth}, {"height", 300}, {"layer", std::move(layers)}};
}

/// How far each rung is from what it is compared with, beside what is allowed. What is bit-equal has no point
/// on a logarithmic axis, and no strip.
std::optional<Json> distances(const std::vector<const Row*>& rows, Json& values) {
  std::vector<std::string> names;
  double low = std::numeric_limits<double>::infinity(), high = 0;
  const auto add = [&](const Row& row, Json value, const char* field, double distance) {
    low = std::min(low, distance);
    high = std::max(high, distance);
    value.update({{"rung", row.name}, {field, distance}});
    values.push_back(std::move(value));
  };
  for (const Row* row : rows) {
    bool any = false;
    for (size_t i = 0; i < row->losses_apart.size(); ++i)
      if (const double apart = row->losses_apart[i]; apart > 0 && std::isfinite(apart)) {
        add(*row, {{"step", i}, {"to", row->loss_against}}, "apart", apart);
        any = true;
      }
    if (!any) continue;
    names.push_back(row->name);
    if (row->verdict.loss.tolerance > 0)
      add(*row, {{"step", 0}, {"last", std::min(row->losses_apart.size(), kLossSteps) - 1}}, "allowed",
          row->verdict.loss.tolerance);
  }
  if (names.empty()) return std::nullopt;
  // Whole decades, an even number of them for the tick in the middle.
  const double top = std::ceil(std::log10(high));
  const double half = std::max(1.0, std::ceil((top - std::floor(std::log10(low))) / 2));
  const Json ticks = {std::pow(10, top - 2 * half), std::pow(10, top - half), std::pow(10, top)};
  const auto y = [&](const char* field) {
    return Json{{"field", field},
                {"type", "quantitative"},
                {"title", nullptr},
                {"scale", {{"type", "log"}, {"domain", {ticks.front(), ticks.back()}}}},
                {"axis", {{"values", ticks}, {"format", ".0e"}}}};
  };
  const Json tooltip = {{{"field", "rung"}, {"title", "rung"}},
                        {{"field", "to"}, {"title", "compared with"}},
                        {{"field", "step"}, {"title", "step"}},
                        {{"field", "apart"}, {"title", "relative distance"}, {"format", ".2e"}}};
  Json panel = strips(
      "rung", names,
      {{{"transform", {{{"filter", "isValid(datum.allowed)"}}}},
        {"mark", {{"type", "rule"}, {"strokeDash", {4, 3}}, {"strokeWidth", 1.5}, {"color", kBad}}},
        {"encoding", {{"x", step_axis(values)}, {"x2", {{"field", "last"}}}, {"y", y("allowed")}}}},
       {{"transform", {{{"filter", "isValid(datum.apart)"}}}},
        {"mark", {{"type", "line"}, {"strokeWidth", 1.5}, {"color", kPalette[0]}, {"point", {{"size", 18}}}}},
        {"encoding", {{"x", step_axis(values)}, {"y", y("apart")}, {"tooltip", tooltip}}}}});
  panel["transform"] = {{{"filter", "isValid(datum.rung)"}}};
  panel["title"] = {{"text", "distance from what the gate compares it with, relative to that loss"},
                    {"subtitle",
                     {"logarithmic; dashed: what is allowed (no line: equal bits only); a step of equal bits "
                      "has no point"}},
                    {"fontSize", 12},
                    {"fontWeight", "normal"}};
  return panel;
}
}  // namespace

std::vector<LossLine> loss_lines(const std::vector<const Row*>& rows) {
  // What the picture shows from bottom to top.
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const Row* row : rows)
    for (const StepResult& step : row->steps)
      if (std::isfinite(step.loss)) {
        low = std::min(low, step.loss);
        high = std::max(high, step.loss);
      }
  const auto covers = [&](const Row& one, const Row& other) {
    constexpr double kApart = 0.004;  // of the height: the width of a line
    return one.ok() && other.ok() &&
           std::ranges::equal(one.steps, other.steps, [&](const StepResult& x, const StepResult& y) {
             return std::abs(x.loss - y.loss) <= kApart * (high - low);
           });
  };
  std::vector<LossLine> lines;
  for (const Row* row : rows) {
    if (row->steps.empty()) continue;
    const auto line =
        std::ranges::find_if(lines, [&](const LossLine& drawn) { return covers(*drawn.row, *row); });
    if (line == lines.end())
      lines.push_back({row, {}});
    else
      line->others.push_back(row);
  }
  return lines;
}

Json loss_chart(const Analysis& a, const std::vector<const Row*>& rows) {
  Json values = Json::array(), panels = Json::array();
  panels.push_back(curves(rows, a.experiment.target_loss, values));
  if (auto below = distances(rows, values)) panels.push_back(std::move(*below));
  const std::string subtitle =
      std::string("every step of the first round, warm-up included") +
      (validates(rows) ? "; diamonds: on data that training never reads, before that step" : "");
  return chart_of_panels(a, "loss", subtitle, std::move(values), std::move(panels));
}
}  // namespace optrush
