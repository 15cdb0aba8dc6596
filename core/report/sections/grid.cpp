#include "analysis/grid.h"

#include "analysis/numbers/format.h"
#include "analysis/quantities.h"
#include "base/text.h"
#include "report/sections/document.h"

namespace optrush {
namespace {
std::string grid_cell(const Analysis& a, const Quantity& quantity, const GridPoint& point,
                      const GridPoint* reference) {
  const auto value = number_of(quantity, a, *point.row);
  if (!value) return kUnknown;
  std::string text = text_of(quantity.unit, *value);
  if (reference == nullptr) return text;
  const auto other = number_of(quantity, a, *reference->row);
  return other.value_or(0) > 0 ? text + " (" + change(*value / *other) + ")" : text;
}

Section grid_section(const Analysis& a, const Grid& grid) {
  const GridView& view = grid.part->view;
  Section section{.title = "Grid",
                  .lead = "This table lists every combination by its choice on each axis.",
                  .chart = grid.chart};
  section.caption = "The chart shows " + rounds_of_curves(view) + " against " + view.x + ".";
  if (!view.against.empty())
    section.paragraphs.push_back("In brackets is the change from '" + view.against +
                                 "' with the same other choices.");
  Table& table = section.table.emplace();
  for (size_t i = 0; i < grid.titles.size(); ++i)
    table.add({grid.titles[i]}, grid.points, [&](const GridPoint& point) { return point.choices[i]; });
  for (const auto& column : view.columns) {
    const Quantity& quantity = *quantity_of_grid(column);
    table.add({title_in_grid(quantity), true}, grid.points, [&](const GridPoint& point) {
      return grid_cell(a, quantity, point, reference_of(grid, point));
    });
  }
  table.add({"status"}, grid.points,
            [](const GridPoint& point) { return std::string(to_string(point.row->status)); });
  std::vector<std::string> others;
  for (const auto& point : grid.points) {
    const GridPoint* reference = reference_of(grid, point);
    if (reference == nullptr || !point.row->ok() || !reference->row->ok()) continue;
    if (const auto differs = difference_of_problems(a, point.row->variant, a, reference->row->variant);
        !differs.empty())
      others.push_back(name_in_text(point.row->name) + " (" + differs + ")");
  }
  if (!others.empty())
    section.bullets.push_back("Not like for like with '" + view.against + "': " + join(others) + ".");
  return section;
}
}  // namespace

std::vector<Section> grid_sections(const Analysis& a) {
  std::vector<Section> sections;
  for (const Grid& grid : grids_of(a)) sections.push_back(grid_section(a, grid));
  return sections;
}
}  // namespace optrush
