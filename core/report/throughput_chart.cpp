#include <cmath>

#include "report/chart_parts.h"

namespace optrush {
/// A strip for each rung: lines over each other show nothing where steps differ by more than rungs do.
Json throughput_chart(const Analysis& a, const std::vector<const Row*>& rows) {
  Json values = Json::array();
  std::vector<std::string> names;
  for (const Row* row : rows) {
    if (!row->ok()) continue;
    for (const StepResult& step : row->steps) {
      if (!step.timed || step.seconds <= 0) continue;
      if (names.empty() || names.back() != row->name) names.push_back(row->name);
      values.push_back({{"rung", row->name},
                        {"step", step.step},
                        {"value", static_cast<double>(step.tokens) / step.seconds}});
    }
  }
  const Json y = {
      {"field", "value"},
      {"type", "quantitative"},
      {"title", nullptr},
      {"scale", {{"zero", true}}},
      {"axis", {{"tickCount", 2}, {"labelExpr", "datum.value == 0 ? '0' : format(datum.value, '~s')"}}}};
  Json median = y;
  median["aggregate"] = "median";
  const Json tooltip = {{{"field", "rung"}, {"title", "rung"}},
                        {{"field", "step"}, {"title", "step"}},
                        {{"field", "value"}, {"title", "tokens/s"}, {"format", ",.6~g"}}};
  const Json layers = {
      {{"mark", {{"type", "rule"}, {"strokeDash", {4, 3}}, {"color", kMuted}}},
       {"encoding", {{"y", median}}}},
      {{"mark", {{"type", "line"}, {"strokeWidth", 1.5}, {"color", kPalette[0]}, {"point", {{"size", 18}}}}},
       {"encoding", {{"x", step_axis(values)}, {"y", y}, {"tooltip", tooltip}}}}};
  Json panel = strips("rung", names, layers);
  panel["resolve"] = {{"scale", {{"y", "independent"}}}};  // rungs may be orders of magnitude apart
  return chart_of_panels(
      a, "tokens/s of each step",
      "timed steps of the first round, each rung on a scale of its own; dashed: their median",
      std::move(values), Json::array({std::move(panel)}));
}
}  // namespace optrush
