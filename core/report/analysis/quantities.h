#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "report/analysis/analysis.h"

namespace optrush {
/// What a number counts, and so how people read it.
enum class Unit : uint8_t {
  number,          ///< "1,234"
  whole,           ///< "80"
  seconds,         ///< "12.3 ms"
  bytes,           ///< "1.55 GiB"
  flop_rate,       ///< "420 GFLOP/s"
  gigabyte_rate,   ///< bytes a second, as "20.51" GB/s
  share,           ///< 0.123 is "12.3 %"
  relative_error,  ///< 0.123 is "+12.3 %"
  loss,            ///< "4.8412"
  joules           ///< "1.2 mJ"
};
/// "seconds", "bytes"
std::string_view to_string(Unit);
std::string text_of(Unit, double);

/// A number of a row, or a word, declared once with its names in all places that show it. A place without a
/// name does not show it. results.csv has them in the order of quantities().
struct Quantity {
  const char* csv = "";       ///< column of results.csv, and its name in this program
  const char* json = "";      ///< of a row of results.json: "tokens_per_second", "memory/process"
  const char* grid = "";      ///< in the view of a grid: "step_time"
  const char* compared = "";  ///< in a comparison of reports
  const char* tracked = "";   ///< in what trackers show of a run's rung
  Unit unit = Unit::number;
  std::optional<double> (*value)(const Analysis&, const Row&) = nullptr;  ///< null: it is a word
  std::string (*word)(const Analysis&, const Row&) = nullptr;
  const char* title = "";       ///< of a table's column
  const char* grid_title = "";  ///< where that of a grid is another
  bool of_fewer = false;        ///< told where a row trains on fewer tokens than it processes, else left out
  const char* doc = "";         ///< what docs/schema/results_csv.md says
};
const std::vector<Quantity>& quantities();

/// By its column of results.csv.
const Quantity& quantity(std::string_view csv);
/// By the name in a view; nullptr: there is none.
const Quantity* quantity_of_grid(std::string_view name);
std::string title_in_grid(const Quantity&);
/// What a view can show.
std::vector<std::string> grid_column_names();

/// "12.3 ms", or "—".
std::string cell_of(const Quantity&, const Analysis&, const Row&);
}  // namespace optrush
