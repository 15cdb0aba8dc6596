#pragma once
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/analysis.h"

namespace optrush {
/// The unit of a number, which decides how it is shown.
enum class Unit : uint8_t {
  number,          ///< "1,234"
  whole,           ///< "80"
  seconds,         ///< "12.3 ms"
  bytes,           ///< "1.55 GiB"
  flop_rate,       ///< "420 GFLOP/s"
  gigabyte_rate,   ///< bytes per second, shown as GB/s: "20.51"
  share,           ///< 0.123 is "12.3 %"
  relative_error,  ///< 0.123 is "+12.3 %"
  loss,            ///< "4.8412"
  joules,          ///< "1.2 mJ"
  watts,           ///< "698 W"
  megahertz        ///< "1605 MHz"
};
/// "seconds", "bytes"
std::string_view to_string(Unit);
std::string text_of(Unit, double);

/// How a row combines the numbers of its runs. one: it takes the number of one run.
enum class OverRuns : uint8_t { median, largest, one };

/// A number (or word) of a row, declared once with its name in every output. An output for which it has no
/// name does not show it. results.csv has the order of quantities().
struct Quantity {
  std::string csv;       ///< column of results.csv, and its name in this program
  std::string json;      ///< in results.json: "tokens_per_second", "memory/process"
  std::string grid;      ///< in the view of a grid: "step_time"
  std::string compared;  ///< in a comparison of reports
  std::string tracked;   ///< in trackers, for the rung of a run
  std::string run;       ///< column of runs.csv, and in trackers, for the run itself
  Unit unit = Unit::number;
  /// The number of a run. The number of a row combines its runs by `over`, unless there is a `value`, which
  /// does the same.
  std::optional<double> (*of_run)(const RunResult&) = nullptr;
  OverRuns over = OverRuns::median;
  std::function<std::optional<double>(const Analysis&, const Row&)> value;
  std::function<std::string(const Analysis&, const Row&)> word;
  std::string title;       ///< column title in tables
  std::string grid_title;  ///< column title in grids, if it differs
  bool of_fewer = false;   ///< shown only if a row trains on fewer tokens than it processes, or pads
  std::string doc;         ///< text of docs/schema/results_csv.md

  struct Output {
    std::string Quantity::*member;  ///< for example &Quantity::grid
    std::string name = {};          ///< "": that of the column
  };
  /// The same quantity, also in these outputs.
  Quantity in(std::initializer_list<Output>) const;
  /// The same quantity, of the numbers of the runs.
  Quantity over_runs(decltype(of_run), OverRuns = OverRuns::median) const;
  /// The same quantity with `of_fewer`.
  Quantity if_fewer() const;
};
const std::vector<Quantity>& quantities();

/// The number of a row; none if it was not measured. `q` must not be a word.
std::optional<double> number_of(const Quantity& q, const Analysis&, const Row&);
/// The quantity with this column of results.csv.
const Quantity& quantity(std::string_view csv);
/// The quantity with this name in a view; nullptr: none.
const Quantity* quantity_of_grid(std::string_view name);
std::string title_in_grid(const Quantity&);
/// The names that a view may use.
std::vector<std::string> grid_column_names();

/// The value as text: "12.3 ms", or "—".
std::string cell_of(const Quantity&, const Analysis&, const Row&);
}  // namespace optrush
