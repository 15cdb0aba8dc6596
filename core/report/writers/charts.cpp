#include "report/writers/writers.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <set>

#include "analysis/grid.h"
#include "analysis/numbers/format.h"
#include "analysis/numbers/verdict.h"
#include "analysis/quantities.h"
#include "report/sections/roofline.h"

namespace optrush {
namespace {
/// Limits for a chart, so that the cost of drawing is bounded.
constexpr size_t kMostRungs = 60, kMostSteps = 1000;

/// The rungs to draw: if there are too many, the first (the reference) and the fastest, in order of the
/// report.
Rows drawn(const Rows& rows) {
  if (rows.size() <= kMostRungs) return rows;
  const auto speed = [](const Row* row) { return row->ok() ? row->tokens_per_second.value_or(0) : 0; };
  Rows fastest(rows.begin() + 1, rows.end());
  std::ranges::stable_sort(fastest, std::greater(), speed);
  fastest.resize(kMostRungs - 1);
  const std::set<const Row*> chosen(fastest.begin(), fastest.end());
  return rows_where(rows, [&](const Row& row) { return &row == rows.front() || chosen.contains(&row); });
}

/// The distance between drawn steps.
size_t stride_of(size_t steps) { return (steps + kMostSteps - 1) / kMostSteps; }

/// Calls `use` for evenly spaced steps and the last one.
template <class List, class Use>
void each_drawn(const List& list, const Use& use) {
  const size_t stride = std::max<size_t>(1, stride_of(list.size()));
  for (size_t i = 0; i < list.size(); ++i)
    if (i % stride == 0 || i + 1 == list.size()) use(list[i], i);
}

/// What the chart leaves out; "": nothing.
std::string note_of(const Rows& rows, bool of_steps) {
  std::string note;
  if (rows.size() > kMostRungs)
    note = "the first and the " + std::to_string(kMostRungs - 1) + " fastest of " +
           grouped(static_cast<double>(rows.size())) + " rungs";
  size_t steps = 0;
  for (const Row* row : rows) steps = std::max(steps, row->steps.size());
  if (of_steps && steps > kMostSteps)
    note += (note.empty() ? "" : "; ") + ("one in " + std::to_string(stride_of(steps)) + " steps");
  return note;
}

std::string speed_label(const Row& row) {
  if (!row.ok()) {
    const std::string status =
        row.status == Status::oom ? "out of memory" : std::string(to_string(row.status));
    return row.tokens_per_second ? status + " (" + grouped(*row.tokens_per_second) + ")" : status;
  }
  std::string label = or_unknown(row.tokens_per_second, grouped);
  if (row.variant == 0) return label + " · base";
  if (!row.base.speed) return label;
  if (row.base.speed->same_run) return label + " · the base's run";
  label += " · " + fixed(row.base.speed->value, 2) + "x";
  if (!row.base.speed->interval)
    label += " (no claim)";
  else if (!row.base.speed->claim())
    label += " (" + std::string(to_string(verdict_of(*row.base.speed).outcome)) + ")";
  return label + (row.base.differs.empty() ? "" : " †");
}

bool has_speed(const Row& row) { return row.ok() && row.tokens_per_second; }

Json speed_data(const Rows& rows) {
  const auto row_json = [](const Row* row) {
    Json value = {{"rung", row->name}, {"status", to_string(row->status)}, {"label", speed_label(*row)}};
    if (has_speed(*row)) {
      const auto [low, high] = std::ranges::minmax(row->samples);
      value.update({{"speed", *row->tokens_per_second},
                    {"low", low},
                    {"high", high},
                    {"same_problem", row->base.differs.empty()},
                    {"previous", or_unknown(row->previous.speed, ratio_text)},
                    {"base", or_unknown(row->base.speed, ratio_text)}});
    }
    if (row->ok() && row->memory.allocated)
      value["memory"] = {
          {"bytes", *row->memory.allocated},
          {"text", bytes(*row->memory.allocated) +
                       (row->previous.memory ? " · " + change(*row->previous.memory, 0) : "")}};
    return value;
  };
  return {{"rows", json_list(rows, row_json)}};
}

Json amount(const std::optional<double>& size) {
  return size ? Json{{"bytes", *size}, {"text", bytes(*size)}} : Json();
}

Json memory_data(const Rows& rows) {
  const auto row_json = [](const Row* row) -> Json {
    const std::string predicted =
        row->prediction_error ? ", predicted " + change(1 + *row->prediction_error, 0) : "";
    Json parts = Json::object();
    for (const auto& [name, size] : row->memory.parts) parts[name] = amount(size);
    return {{"rung", row->name},
            {"label", or_unknown(row->memory.allocated, bytes) + predicted},
            {"allocated", amount(row->memory.allocated)},
            {"predicted", amount(row->predicted_peak)},
            {"parts", std::move(parts)}};
  };
  return {{"rows", json_list(rows, row_json)}};
}

Json target_of(const Analysis& a) {
  const double target = a.experiment.target_loss;
  return target > 0 ? Json{{"loss", target}, {"text", exact_number(target)}} : Json();
}

/// The loss curves, one line for rungs that look equal. A rung that broke the gate is visible here.
Json curves(const Rows& rows) {
  return json_list(loss_lines(rows), [](const LossLine& line) -> Json {
    const size_t others = line.others.size();
    Json losses = Json::array();
    each_drawn(line.row->steps, [&](const StepResult& step, size_t) {
      if (std::isfinite(step.loss)) losses.push_back({step.step, step.loss});
    });
    const std::string more =
        others == 0 ? "" : " and " + std::to_string(others) + (others == 1 ? " other" : " others");
    const auto place = [](const ValidationPoint& point) { return Json{point.step, point.loss}; };
    return {{"name", line.row->name + more},
            {"losses", std::move(losses)},
            {"validation", json_list(line.row->validation, place)}};
  });
}

/// The difference of each rung from its reference; a rung with equal bits is left out.
Json distances(const Rows& rows) {
  Json list = Json::array();
  for (const Row* row : rows) {
    Json apart = Json::array();
    each_drawn(row->losses_apart, [&](double distance, size_t i) {
      if (distance > 0 && std::isfinite(distance)) apart.push_back({i, distance});
    });
    if (apart.empty()) continue;
    const double tolerance = row->verdict.loss.tolerance;
    list.push_back({{"rung", row->name},
                    {"to", row->loss_against},
                    {"apart", std::move(apart)},
                    {"allowed", tolerance > 0 ? Json(tolerance) : Json()},
                    {"last", std::min(row->losses_apart.size(), kLossSteps) - 1}});
  }
  return list;
}

Json loss_data(const Analysis& a, const Rows& rows) {
  return {{"lines", curves(rows)},
          {"distances", distances(rows)},
          {"round", shown_round(rows)},
          {"target", target_of(a)}};
}

Json time_data(const Analysis& a, const Rows& shown) {
  const auto line_json = [](const Row* row) -> Json {
    Json losses = Json::array();
    each_drawn(losses_by_time(row->steps, row->validation), [&](const TimedLoss& loss, size_t) {
      losses.push_back({{"seconds", loss.seconds}, {"steps", loss.steps}, {"loss", loss.loss}});
    });
    return {{"name", row->name}, {"losses", std::move(losses)}};
  };
  const bool validated = !shown.front()->validation.empty();
  return {{"lines", json_list(shown, line_json)},
          {"validated", validated},
          {"round", shown_round(shown)},
          {"what", validated ? "validation loss"
                             : "mean loss of the last " + std::to_string(kSmoothedSteps) + " steps"},
          {"target", target_of(a)}};
}

Json throughput_data(const Rows& rows) {
  Json list = Json::array();
  for (const Row* row : rows) {
    Json steps = Json::array();
    each_drawn(row->steps, [&](const StepResult& step, size_t) {
      if (step.timed && step.seconds > 0)
        steps.push_back({step.step, static_cast<double>(step.tokens) / step.seconds});
    });
    if (row->ok() && !steps.empty()) list.push_back({{"rung", row->name}, {"steps", std::move(steps)}});
  }
  return {{"rungs", std::move(list)}, {"round", shown_round(rows)}};
}

Json phase_data(const Rows& rows) {
  const auto row_json = [](const Row* row) -> Json {
    Json phases = Json::array();
    for (const auto& [name, seconds] : row->phases)
      if (seconds.value_or(0) > 0)
        phases.push_back({{"name", name}, {"seconds", *seconds}, {"text", duration(*seconds)}});
    return {{"rung", row->name}, {"phases", std::move(phases)}};
  };
  return {{"rungs", json_list(rows_with_phases(rows), row_json)}};
}

Json scaling_data(const Analysis& a) {
  const auto point_json = [&](const ScalingPoint& point) {
    Json value = {{"ranks", point.ranks},
                  {"growth", point.growth},
                  {"speedup", point.speedup ? point.speedup->value : 1},
                  {"rung", a.row(point.variant)->name},
                  {"text", or_unknown(point.speedup, ratio_text)},
                  {"efficiency", point.efficiency_text()}};
    if (point.speedup && point.speedup->interval)
      value.update({{"low", point.speedup->interval->low}, {"high", point.speedup->interval->high}});
    return value;
  };
  // The title is in the legend, where labels can't overlap: "data parallel, weak: 88 % at 4 ranks".
  const auto series_json = [&](const ScalingSeries& series) -> Json {
    const ScalingPoint& largest = series.largest();
    return {{"title",
             series.title() + ": " +
                 (largest.growth > 1 ? percent(largest.efficiency, 0) : ratio_only(largest.speedup->value)) +
                 " at " + std::to_string(largest.ranks) + " ranks"},
            {"points", json_list(series.points, point_json)}};
  };
  return {{"series", json_list(a.scaling, series_json)}};
}

/// Null if fewer than two settings can be drawn.
Json grid_data(const Analysis& a, const Grid& grid) {
  Json points = Json::array(), columns = Json::array();
  std::set<double> measured;
  for (const auto& column : grid.part->view.curves) {
    const Quantity& quantity = *quantity_of_grid(column);
    bool any = false;
    for (const auto& point : grid.points) {
      const auto x = grid.x(a, point), y = number_of(quantity, a, *point.row);
      if (!x || !y || !point.row->ok()) continue;
      points.push_back({{"line", grid.line(point)},
                        {"x", *x},
                        {"y", *y},
                        {"column", column},
                        {"text", text_of(quantity.unit, *y)}});
      measured.insert(*x);
      any = true;
    }
    if (any)
      columns.push_back(
          {{"name", column}, {"title", title_in_grid(quantity)}, {"unit", to_string(quantity.unit)}});
  }
  if (measured.size() < 2) return nullptr;
  return {{"x", grid.part->view.x},
          {"rounds", rounds_of_curves(grid.part->view)},
          {"columns", std::move(columns)},
          {"points", std::move(points)}};
}

Json roofline_data(const std::vector<RooflinePoint>& points) {
  Json list = Json::array(), roofs = Json::array();
  std::set<std::string> dtypes;
  for (const RooflinePoint& point : points) {
    list.push_back({{"rung", point.row->name},
                    {"phase", point.phase},
                    {"x", point.intensity},
                    {"y", point.flops},
                    {"share", percent(point.share())}});
    if (dtypes.insert(point.dtype).second)
      roofs.push_back(
          {{"dtype", point.dtype}, {"flops", point.roof.flops}, {"bandwidth", point.roof.bandwidth}});
  }
  return {{"points", std::move(list)}, {"roofs", std::move(roofs)}};
}
}  // namespace

std::vector<LossLine> loss_lines(const Rows& rows) {
  // The range of the chart.
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const Row* row : rows)
    for (const StepResult& step : row->steps)
      if (std::isfinite(step.loss)) {
        low = std::min(low, step.loss);
        high = std::max(high, step.loss);
      }
  const auto covers = [&](const Row& one, const Row& other) {
    constexpr double kApart = 0.004;  // share of the height: the width of a line
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

std::vector<Chart> charts_of(const Analysis& a) {
  std::vector<Chart> charts;
  const auto families = families_of(a);
  const auto of_families = [&](const std::string& kind, bool of_steps, auto&& shows, auto&& data) {
    for (const Family& family : families)
      if (const Rows rows = drawn(family.rows);
          std::ranges::any_of(rows, [&](const Row* row) { return shows(*row); }))
        charts.push_back({kind + family.suffix, kind, data(rows), note_of(family.rows, of_steps)});
  };
  of_families("speed", false, has_speed, speed_data);
  if (!a.scaling.empty()) charts.push_back({"scaling", "scaling", scaling_data(a), ""});
  for (const Grid& grid : grids_of(a))
    if (Json data = grid_data(a, grid); !data.is_null())
      charts.push_back({grid.chart, "grid", std::move(data), ""});
  if (const auto points = roofline_points(a); !points.empty())
    charts.push_back({"roofline", "roofline", roofline_data(points), ""});
  of_families(
      "memory", false, [](const Row& row) { return row.memory.allocated.has_value(); }, memory_data);
  of_families(
      "loss", true, [](const Row& row) { return row.final_loss && std::isfinite(*row.final_loss); },
      [&](const Rows& rows) { return loss_data(a, rows); });
  for (const Family& family : families)
    if (const Rows shown = rows_over_time(a, drawn(family.rows)); !shown.empty())
      charts.push_back(
          {"time" + family.suffix, "loss_over_time", time_data(a, shown), note_of(family.rows, true)});
  of_families(
      "phases", false, [](const Row& row) { return !rows_with_phases({&row}).empty(); }, phase_data);
  of_families("throughput", true, has_speed, throughput_data);
  return charts;
}
}  // namespace optrush
