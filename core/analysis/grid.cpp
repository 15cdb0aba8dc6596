#include "analysis/grid.h"

#include <algorithm>
#include <utility>

#include "analysis/quantities.h"
#include "base/suggest.h"
#include "base/text.h"
#include "optrush/error.h"
#include "spec/spec_json.h"

namespace optrush {
namespace {
Json::json_pointer pointer(std::string path) {
  std::ranges::replace(path, '.', '/');
  return Json::json_pointer("/" + path);
}

/// Every combination in the order of expand(): the last axis varies fastest.
void combine(const std::vector<std::vector<Rung>>& axes, std::vector<std::string> choices,
             std::vector<GridPoint>& points) {
  if (choices.size() == axes.size()) {
    points.push_back({std::move(choices), nullptr});
    return;
  }
  for (const auto& rung : axes[choices.size()]) {
    auto chosen = choices;
    chosen.push_back(rung.name);
    combine(axes, std::move(chosen), points);
  }
}

bool sets(const std::vector<Rung>& axis, const std::string& path) {
  return std::ranges::any_of(axis, [&](const Rung& rung) { return rung.settings.contains(pointer(path)); });
}
}  // namespace

const GridPoint* reference_of(const Grid& grid, const GridPoint& point) {
  auto choices = point.choices;
  for (size_t i = 0; i < choices.size(); ++i)
    if (std::ranges::find(grid.part->axes[i], grid.part->view.against, &Rung::name) !=
        grid.part->axes[i].end())
      choices[i] = grid.part->view.against;
  if (choices == point.choices) return nullptr;
  const auto it = std::ranges::find(grid.points, choices, &GridPoint::choices);
  return it == grid.points.end() ? nullptr : &*it;
}

std::optional<double> Grid::x(const Analysis& a, const GridPoint& point) const {
  if (part->view.x.empty()) return std::nullopt;
  return number_at(to_json(a.spec(*point.row)), pointer(part->view.x).to_string());
}

std::string Grid::line(const GridPoint& point) const {
  std::vector<std::string> parts;
  for (size_t i = 0; i < part->axes.size(); ++i)
    if (!sets(part->axes[i], part->view.x)) parts.push_back(point.choices[i]);
  return parts.empty() ? part->view.x : grid_name(parts);
}

std::string rounds_of_curves(const GridView& view) {
  static constexpr std::pair<OverRuns, const char*> kWays[] = {
      {OverRuns::median, "medians of all rounds"},
      {OverRuns::largest, "the largest of all rounds"},
      {OverRuns::one, "numbers of one round"}};
  std::vector<std::string> parts;
  for (const auto& [way, text] : kWays) {
    std::vector<std::string> titles;
    for (const std::string& name : view.curves)
      if (const Quantity& quantity = *quantity_of_grid(name); quantity.over == way)
        titles.push_back(title_in_grid(quantity));
    const bool all = titles.size() == view.curves.size();
    if (!titles.empty()) parts.push_back(std::string(text) + (all ? "" : " (" + join(titles) + ")"));
  }
  return join(parts);
}

std::vector<Grid> grids_of(const Analysis& a) {
  std::vector<Grid> grids;
  for (const Part& part : a.experiment.parts) {
    if (part.arrangement != Arrangement::grid || (part.view.columns.empty() && part.view.x.empty())) continue;
    for (const auto* columns : {&part.view.columns, &part.view.curves})
      for (const auto& column : *columns)
        if (quantity_of_grid(column) == nullptr)
          throw Error(ErrorCode::unknown_name, "a grid's view has no column '" + column + "'",
                      did_you_mean(column, grid_column_names()), a.experiment.name);
    Grid grid{.part = &part, .chart = "grid"};
    if (!grids.empty()) grid.chart += "-" + std::to_string(grids.size() + 1);
    combine(part.axes, {}, grid.points);
    for (auto& point : grid.points)
      for (const Row& row : a.rows)
        if (row.group == "grid" && row.name == grid_name(point.choices)) point.row = &row;
    std::erase_if(grid.points, [](const GridPoint& point) { return point.row == nullptr; });
    for (size_t i = 0; i < part.axes.size(); ++i)
      grid.titles.push_back(i < part.view.axes.size() ? part.view.axes[i]
                                                      : "choice " + std::to_string(i + 1));
    grids.push_back(std::move(grid));
  }
  return grids;
}
}  // namespace optrush
