#pragma once
#include <optional>
#include <string>
#include <vector>

#include "report/sections/document.h"

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

/// A table for each grid with a view.
std::vector<Section> grid_sections(const Analysis&);
}  // namespace optrush
