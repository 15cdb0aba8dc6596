#pragma once
#include <string>
#include <vector>

#include "optrush/json.h"
#include "spec/spec_json.h"

namespace optrush {
/// How a report shows a grid, beside the rows that every rung has. Without columns and x: not at all.
struct GridView {
  std::vector<std::string> axes;     ///< their names, where the script gives them
  std::vector<std::string> columns;  ///< of a table with a column for each axis: quantities of the report
  std::string against;               ///< a choice of one axis: changes against it stand in brackets
  std::string x;                     ///< a numeric setting ("train.seq_len") to draw curves over
  std::vector<std::string> curves;   ///< what is drawn over it: quantities of the report

  bool operator==(const GridView&) const = default;
};

Json to_json(const GridView&);
/// An Error names `where`.
GridView grid_view_from_json(const Json&, const std::string& where);
}  // namespace optrush
