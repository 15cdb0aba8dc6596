#pragma once
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "report/sections/document.h"

namespace optrush {
/// report.md. `charts`: names of the drawn charts.
std::string markdown(const Document&, const std::vector<std::string>& charts);
/// A table in Markdown.
std::string markdown_table(const Table&);
/// results.csv: one line per row, always with the same columns (docs/schema/results_csv.md).
std::string csv(const Analysis&);
/// results.json: everything that the report states, and the names of its runs
/// (docs/schema/results.schema.json). One line per part and per item of a list, without spaces: a third of
/// the size, and a change is one line.
void write_results(const std::filesystem::path&, const Analysis&);
/// A list with the JSON that `make` returns for each item.
Json json_list(const auto& items, auto make) {
  Json list = Json::array();
  for (const auto& item : items) list.push_back(std::invoke(make, item));
  return list;
}
/// A ratio as JSON; null if there is none.
Json ratio_json(const std::optional<Ratio>&);

/// A chart as data. scripts/charts draws it, with one module per kind.
struct Chart {
  std::string name;  ///< "speed-ablation": speed-ablation.svg
  std::string kind;  ///< "speed"
  Json data;
  std::string note;  ///< the part that is shown: "the first and the 59 fastest of 1,000 rungs"; usually ""
};
/// The non-empty charts in the order of the report: speed, scaling, grid, roofline, memory, loss, loss over
/// time, phases, throughput. With more than 60 rungs they show the first and the fastest, and with more than
/// 1,000 steps evenly spaced ones.
std::vector<Chart> charts_of(const Analysis&);

/// report.html: the document with places for `charts`. The script that makes them interactive replaces
/// `kChartsMark`. Without charts, the page is complete.
std::string html(const Document&, const std::vector<std::string>& charts);
inline constexpr const char* kChartsMark = "<!--charts-->";

/// Plain text with aligned tables and without charts, for a terminal of `width` columns; 0: any.
std::string text(const Document&, size_t width = 0);
/// Aligned columns with titles. Cells break at spaces, so that lines fit into `width`.
std::string text_table(const Table&, size_t width = 0);
/// Lines of printable characters that break at spaces.
std::string text_lines(const std::string&, size_t width = 0);

/// The last line of a program's output: of a Python traceback, the error.
std::string last_line(std::string text);

/// A comparison as JSON (docs/schema/comparison.schema.json).
Json comparison_json(const ComparedReports&);
}  // namespace optrush
