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
constexpr const char* kParted = "parts";

Json memory_values(const std::vector<const Row*>& rows, double unit) {
  Json values = Json::array();
  const auto add = [&](const Row& row, const char* bar, const char* part, size_t order, double size) {
    values.push_back({{"rung", row.name},
                      {"bar", bar},
                      {"part", part},
                      {"order", order},
                      {"size", size / unit},
                      {"text", bytes(size)}});
  };
  for (const Row* row : rows) {
    if (row->memory.allocated) add(*row, kMeasured, kMeasured, 0, *row->memory.allocated);
    for (const auto& [name, size] : row->memory.parts)
      for (size_t i = 0; i < kParts.size(); ++i)
        if (name == kParts[i].first) add(*row, kParted, kParts[i].second, i + 1, size);
  }
  return values;
}

/// Beside the measured bar: its size, and how far the prediction is from it.
Json memory_labels(const std::vector<const Row*>& rows, double unit) {
  Json labels = Json::array();
  for (const Row* row : rows) {
    if (!row->memory.allocated) continue;
    const double end = std::max(*row->memory.allocated, row->predicted_peak.value_or(0));
    const std::string predicted =
        row->prediction_error ? ", predicted " + change(1 + *row->prediction_error, 0) : "";
    labels.push_back({{"rung", row->name},
                      {"bar", kMeasured},
                      {"size", end / unit},
                      {"label", bytes(*row->memory.allocated) + predicted}});
  }
  return labels;
}

Json predictions(const std::vector<const Row*>& rows, double unit) {
  Json values = Json::array();
  for (const Row* row : rows)
    if (row->predicted_peak && row->memory.allocated)
      values.push_back({{"rung", row->name},
                        {"bar", kMeasured},
                        {"part", "predicted peak"},
                        {"size", *row->predicted_peak / unit},
                        {"text", bytes(*row->predicted_peak)}});
  return values;
}
}  // namespace

Json memory_chart(const Analysis& a, const std::vector<const Row*>& rows) {
  double largest = 0;
  for (const Row* row : rows)
    largest =
        std::max({largest, row->memory.allocated.value_or(0), row->memory.total_of_parts().value_or(0)});
  const auto [unit, unit_name] = byte_unit(largest);
  const Json y = rung_axis(rows);
  const Json offset = {{"field", "bar"}, {"sort", {kMeasured, kParted}}};
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
  const std::string title = std::string("peak active memory in ") + unit_name;
  Json layers = {
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
  if (const Json predicted = predictions(rows, unit); !predicted.empty())
    layers.push_back(
        {{"data", {{"values", predicted}}},
         {"mark", {{"type", "tick"}, {"thickness", 2}, {"color", kText}, {"size", 16}}},
         {"encoding",
          {{"y", y}, {"yOffset", offset}, {"x", quantity("size", title)}, {"tooltip", tooltip}}}});
  Json spec = chart_of(a, "peak active memory of each rung",
                       "the bytes that tensors hold at the peak of the timed steps, and across it the "
                       "prediction; below: what they are for",
                       memory_values(rows, unit), layers);
  spec["height"] = {{"step", 20}};
  return spec;
}
}  // namespace optrush
