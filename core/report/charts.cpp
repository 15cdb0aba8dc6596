#include <algorithm>
#include <array>
#include <cmath>

#include "report/format.h"
#include "report/theme.h"
#include "report/writers.h"

namespace optrush {
namespace {
constexpr int kWidth = 560;
constexpr int kNameWidth = 300;  ///< longer names end in "…"; the table has them whole

Json in_order(const std::vector<std::string>& names) { return names.empty() ? Json() : Json(names); }

std::vector<std::string> names_of(const Analysis& a) {
  std::vector<std::string> names;
  for (const Row& row : a.rows) names.push_back(row.name);
  return names;
}

Json chart(const Analysis& a, const std::string& title, const std::string& subtitle, Json values,
           Json layers) {
  return {{"$schema", "https://vega.github.io/schema/vega-lite/v5.json"},
          {"title", {{"text", a.experiment.name + ": " + title}, {"subtitle", subtitle}}},
          {"width", kWidth},
          {"data", {{"values", std::move(values)}}},
          {"layer", std::move(layers)},
          {"config", chart_config()}};
}

Json rung_axis(const Analysis& a) {
  return {{"field", "rung"},
          {"type", "nominal"},
          {"sort", in_order(names_of(a))},
          {"title", nullptr},
          {"axis", {{"labelLimit", kNameWidth}, {"domain", false}, {"ticks", false}, {"labelPadding", 8}}}};
}

Json quantity(const std::string& field, const std::string& title) {
  return {{"field", field}, {"type", "quantitative"}, {"title", title}};
}

std::string problem_of(const Row& row) {
  return row.base.differs.empty() ? "same problem as the base" : "another problem";
}

std::string speed_label(const Row& row) {
  std::string label = grouped(*row.tokens_per_second);
  if (!row.ok()) return label + "   " + std::string(to_string(row.status));
  if (!row.base.speed) return row.variant == 0 ? label + "   base" : label;
  label += "   " + fixed(row.base.speed->value, 2) + "x";
  if (row.base.speed->within_noise()) label += " (noise)";
  if (!row.base.speed->interval) label += " (no claim)";
  return label + (row.base.differs.empty() ? "" : " †");
}

Json speed_values(const Analysis& a) {
  Json values = Json::array();
  for (const Row& row : a.rows) {
    Json value = {{"rung", row.name}, {"status", std::string(to_string(row.status))}, {"at", 0}};
    if (row.tokens_per_second) {
      const auto [low, high] = std::ranges::minmax(row.samples);
      value.update(
          {{"speed", *row.tokens_per_second},
           {"low", low},
           {"high", high},
           {"at", high},
           {"label", speed_label(row)},
           {"problem", row.ok() ? problem_of(row) : "not ok"},
           {"previous", row.previous.speed ? ratio_text(*row.previous.speed) : std::string(kUnknown)},
           {"base", row.base.speed ? ratio_text(*row.base.speed) : std::string(kUnknown)}});
    } else {
      value["label"] = row.status == Status::oom ? "out of memory" : std::string(to_string(row.status));
    }
    values.push_back(value);
  }
  return values;
}

Json speed_chart(const Analysis& a) {
  const Json y = rung_axis(a);
  const Json tooltip = {{{"field", "rung"}, {"title", "rung"}},
                        {{"field", "label"}, {"title", "tokens/s"}},
                        {{"field", "previous"}, {"title", "vs previous"}},
                        {{"field", "base"}, {"title", "vs base"}},
                        {{"field", "status"}, {"title", "status"}}};
  const bool several =
      std::ranges::any_of(a.rows, [](const Row& r) { return !r.ok() || !r.base.differs.empty(); });
  const Json colour = {
      {"field", "problem"},
      {"type", "nominal"},
      {"scale",
       {{"domain", {"same problem as the base", "another problem", "not ok"}},
        {"range", {kPalette[0], kPalette[4], kPalette[9]}}}},
      {"legend", several ? Json{{"title", nullptr}, {"orient", "bottom"}, {"columns", 3}} : Json()}};
  const Json measured = {{{"filter", "isValid(datum.speed)"}}};
  const Json whisker_mark = {{"type", "rule"}, {"strokeWidth", 1.5}, {"color", kText}};
  const auto end_of_whisker = [&](const char* field) {
    return Json{{"transform", measured},
                {"mark", {{"type", "tick"}, {"size", 10}, {"thickness", 1.5}, {"color", kText}}},
                {"encoding", {{"y", y}, {"x", quantity(field, "tokens/s")}}}};
  };
  const Json layers = {
      {{"transform", measured},
       {"mark", {{"type", "bar"}, {"cornerRadiusEnd", 2}}},
       {"encoding",
        {{"y", y}, {"x", quantity("speed", "tokens/s")}, {"color", colour}, {"tooltip", tooltip}}}},
      {{"transform", measured},
       {"mark", whisker_mark},
       {"encoding", {{"y", y}, {"x", quantity("low", "tokens/s")}, {"x2", {{"field", "high"}}}}}},
      end_of_whisker("low"),
      end_of_whisker("high"),
      {{"mark", {{"type", "text"}, {"align", "left"}, {"dx", 8}}},
       {"encoding",
        {{"y", y},
         {"x", quantity("at", "tokens/s")},
         {"text", {{"field", "label"}}},
         {"color",
          {{"condition", {{"test", "datum.status == 'ok'"}, {"value", kText}}}, {"value", kBad}}}}}}};
  Json spec = chart(a, "tokens/s of each rung",
                    "median over rounds; whiskers: slowest and fastest round; x: over the base",
                    speed_values(a), layers);
  spec["height"] = {{"step", 30}};
  return spec;
}

/// The unit that the largest value of a chart is best read in.
std::pair<double, const char*> byte_unit(double largest) {
  constexpr double kKiB = 1024;
  if (largest >= kKiB * kKiB * kKiB) return {kKiB * kKiB * kKiB, "GiB"};
  return largest >= kKiB * kKiB ? std::pair{kKiB * kKiB, "MiB"} : std::pair{kKiB, "KiB"};
}

constexpr std::array<std::pair<const char*, const char*>, 4> kParts = {
    {{"parameters", "parameters"},
     {"gradients", "gradients"},
     {"optimizer_state", "optimizer state"},
     {"activations", "activations"}}};
constexpr const char* kMeasured = "measured peak";

Json memory_values(const Analysis& a, double unit) {
  Json values = Json::array();
  for (const Row& row : a.rows) {
    if (row.memory.allocated)
      values.push_back({{"rung", row.name},
                        {"kind", "measured"},
                        {"part", kMeasured},
                        {"order", 0},
                        {"size", *row.memory.allocated / unit},
                        {"text", bytes(*row.memory.allocated)}});
    for (const auto& [name, size] : row.memory.predicted)
      for (size_t i = 0; i < kParts.size(); ++i)
        if (name == kParts[i].first)
          values.push_back({{"rung", row.name},
                            {"kind", "predicted"},
                            {"part", kParts[i].second},
                            {"order", i + 1},
                            {"size", size / unit},
                            {"text", bytes(size)}});
  }
  return values;
}

Json memory_labels(const Analysis& a, double unit) {
  Json labels = Json::array();
  for (const Row& row : a.rows) {
    if (row.memory.allocated)
      labels.push_back({{"rung", row.name},
                        {"kind", "measured"},
                        {"size", *row.memory.allocated / unit},
                        {"label", bytes(*row.memory.allocated)}});
    if (const auto total = row.memory.predicted_total())
      labels.push_back(
          {{"rung", row.name},
           {"kind", "predicted"},
           {"size", *total / unit},
           {"label", bytes(*total) +
                         (row.prediction_error ? " (" + change(1 + *row.prediction_error, 0) + ")" : "")}});
  }
  return labels;
}

Json memory_chart(const Analysis& a) {
  double largest = 0;
  for (const Row& row : a.rows)
    largest = std::max({largest, row.memory.allocated.value_or(0), row.memory.predicted_total().value_or(0)});
  const auto [unit, unit_name] = byte_unit(largest);
  const Json y = rung_axis(a);
  const Json offset = {{"field", "kind"}, {"sort", {"measured", "predicted"}}};
  Json domain = {kMeasured}, range = {kPalette[0]};
  for (size_t i = 0; i < kParts.size(); ++i) {
    domain.push_back(kParts[i].second);
    range.push_back(kPalette[i + 1]);
  }
  const Json colour = {
      {"field", "part"},
      {"type", "nominal"},
      {"scale", {{"domain", domain}, {"range", range}}},
      {"legend", {{"title", "measured, and predicted by part"}, {"orient", "bottom"}, {"columns", 5}}}};
  const Json tooltip = {{{"field", "rung"}, {"title", "rung"}},
                        {{"field", "part"}, {"title", "part"}},
                        {{"field", "text"}, {"title", "size"}}};
  const std::string title = std::string("peak memory in ") + unit_name;
  const Json layers = {
      {{"mark", {{"type", "bar"}}},
       {"encoding",
        {{"y", y},
         {"yOffset", offset},
         {"x", quantity("size", title)},
         {"color", colour},
         {"order", {{"field", "order"}}},
         {"tooltip", tooltip}}}},
      {{"data", {{"values", memory_labels(a, unit)}}},
       {"mark", {{"type", "text"}, {"align", "left"}, {"dx", 5}, {"fontSize", 11}, {"color", kText}}},
       {"encoding",
        {{"y", y}, {"yOffset", offset}, {"x", quantity("size", title)}, {"text", {{"field", "label"}}}}}}};
  Json spec =
      chart(a, "peak memory of each rung", "the allocator's peak over the timed steps, beside the prediction",
            memory_values(a, unit), layers);
  spec["height"] = {{"step", 20}};
  return spec;
}

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
  const Json legend = {{"title", nullptr}, {"labelLimit", kNameWidth}, {"symbolStrokeWidth", 2.5}};
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
  Json spec = chart(a, title, subtitle, std::move(values), layers);
  spec["height"] = 300;
  return spec;
}

Json curve_values(const Analysis& a, auto&& value_of) {
  Json values = Json::array();
  for (const Row& row : a.rows)
    for (const StepResult& step : row.steps)
      if (const std::optional<double> value = value_of(step); value && std::isfinite(*value))
        values.push_back({{"rung", row.name}, {"step", step.step}, {"value", *value}});
  return values;
}
}  // namespace

std::vector<Chart> make_charts(const Analysis& a) {
  std::vector<Chart> charts = {{"speed", speed_chart(a)}};
  if (std::ranges::any_of(a.rows, [](const Row& row) { return row.memory.allocated.has_value(); }))
    charts.push_back({"memory", memory_chart(a)});
  Json losses = curve_values(a, [](const StepResult& s) { return std::optional(s.loss); });
  if (!losses.empty())
    charts.push_back({"loss", curve_chart(a, "loss", "every step of the first round, warm-up included",
                                          "loss", std::move(losses), {{"zero", false}})});
  Json speeds = curve_values(a, [](const StepResult& s) {
    return s.timed && s.seconds > 0 ? std::optional(static_cast<double>(s.tokens) / s.seconds) : std::nullopt;
  });
  if (!speeds.empty())
    charts.push_back({"throughput", curve_chart(a, "tokens/s of each step", "timed steps of the first round",
                                                "tokens/s", std::move(speeds), {{"zero", true}})});
  return charts;
}
}  // namespace optrush
