#include <algorithm>
#include <array>

#include "report/chart_parts.h"
#include "report/format.h"

namespace optrush {
namespace {
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

Json memory_values(const std::vector<const Row*>& rows, double unit) {
  Json values = Json::array();
  for (const Row* each : rows) {
    const Row& row = *each;
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

Json memory_labels(const std::vector<const Row*>& rows, double unit) {
  Json labels = Json::array();
  for (const Row* each : rows) {
    const Row& row = *each;
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

}  // namespace

Json memory_chart(const Analysis& a, const std::vector<const Row*>& rows) {
  double largest = 0;
  for (const Row* row : rows)
    largest =
        std::max({largest, row->memory.allocated.value_or(0), row->memory.predicted_total().value_or(0)});
  const auto [unit, unit_name] = byte_unit(largest);
  const Json y = rung_axis(rows);
  const Json offset = {{"field", "kind"}, {"sort", {"measured", "predicted"}}};
  Json domain = {kMeasured}, range = {kPalette[0]};
  for (size_t i = 0; i < kParts.size(); ++i) {
    domain.push_back(kParts[i].second);
    range.push_back(kPalette[i + 1]);
  }
  const Json colour = {{"field", "part"},
                       {"type", "nominal"},
                       {"scale", {{"domain", domain}, {"range", range}}},
                       {"legend", legend_below(nullptr)}};
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
      {{"data", {{"values", memory_labels(rows, unit)}}},
       {"mark", {{"type", "text"}, {"align", "left"}, {"dx", 5}, {"fontSize", 11}, {"color", kText}}},
       {"encoding",
        {{"y", y}, {"yOffset", offset}, {"x", quantity("size", title)}, {"text", {{"field", "label"}}}}}}};
  Json spec = chart_of(a, "peak memory of each rung",
                       "the allocator's peak over the timed steps, beside the prediction",
                       memory_values(rows, unit), layers);
  spec["height"] = {{"step", 20}};
  return spec;
}
}  // namespace optrush
