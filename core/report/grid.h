#pragma once
#include <optional>
#include <string>
#include <vector>

#include "report/document.h"

namespace optrush {
/// One combination of a grid.
struct GridPoint {
  std::vector<std::string> choices;  ///< one of each axis
  const Row* row = nullptr;
};

/// A grid that has a view of its own.
struct Grid {
  const Part* part = nullptr;
  std::string chart;                ///< name of its chart
  std::vector<GridPoint> points;    ///< in the order of the rows
  std::vector<std::string> titles;  ///< of the axes

  /// A point's numeric setting on the x axis; none where the view has none.
  std::optional<double> x(const Analysis&, const GridPoint&) const;
  /// The choices of the axes that do not decide x: the line that a point is on.
  std::string line(const GridPoint&) const;
};
std::vector<Grid> grids_of(const Analysis&);

/// What a column of grid_columns() shows of a row, as a number and as text.
struct Quantity {
  std::optional<double> (*value)(const Analysis&, const Row&);
  std::string (*text)(double);
  const char* unit = "";  ///< that an axis of a chart is marked in: "seconds", "bytes", "share", "loss"
};
const Quantity& quantity_of(const std::string& column);
const std::string& column_title(const std::string& column);

/// A table for each grid with a view.
std::vector<Section> grid_sections(const Analysis&);
}  // namespace optrush
