#pragma once
#include <optional>
#include <string>
#include <vector>

#include "analysis/analysis.h"

namespace optrush {
/// A combination of a grid.
struct GridPoint {
  std::vector<std::string> choices;  ///< one per axis
  const Row* row = nullptr;
};

/// A grid with a view.
struct Grid {
  const Part* part = nullptr;
  std::string chart;                ///< name of its chart
  std::vector<GridPoint> points;    ///< in order of the rows
  std::vector<std::string> titles;  ///< names of the axes

  /// The numeric setting of a point on the x axis; none if the view has none.
  std::optional<double> x(const Analysis&, const GridPoint&) const;
  /// The line of a point: the choices of all axes that do not determine x.
  std::string line(const GridPoint&) const;
};
std::vector<Grid> grids_of(const Analysis&);
/// The same combination with the reference choice on its axis; null: it is that one, or there is none.
const GridPoint* reference_of(const Grid&, const GridPoint&);
/// How the curves of a view combine rounds: "medians of all rounds (step), the largest of all rounds (peak
/// memory)".
std::string rounds_of_curves(const GridView&);
}  // namespace optrush
