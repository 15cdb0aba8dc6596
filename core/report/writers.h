#pragma once
#include <string>
#include <vector>

#include "report/document.h"

namespace optrush {
/// report.md; `charts` are the names of those that were drawn.
std::string markdown(const Document&, const std::vector<std::string>& charts);
/// One table of it.
std::string markdown_table(const Table&);
/// results.csv: one line a row, always the same columns (docs/schema/results_csv.md).
std::string csv(const Analysis&);
/// results.json: everything, with the raw samples (docs/schema/results.schema.json).
Json results_json(const Analysis&);
/// A ratio as everything that is JSON has it; null where there is none.
Json ratio_json(const std::optional<Ratio>&);

/// A chart as a Vega-Lite spec, without colours of a theme.
struct Chart {
  std::string name;  ///< "speed": speed.svg
  Json spec;
};
/// speed, throughput, scaling, grid, roofline, memory, loss: those that have something to show.
std::vector<Chart> make_charts(const Analysis&);

/// report.html: the document with its charts as specs, self-contained but for the charts' library, which
/// takes the place of `kLibraryMark`. Without charts the page needs none.
std::string html(const Document&, const std::vector<Chart>&);
inline constexpr const char* kLibraryMark = "/*charts-library*/";
}  // namespace optrush
