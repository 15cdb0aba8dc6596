#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "report/sections/document.h"

namespace optrush {
/// report.md; `charts` are the names of those that were drawn.
std::string markdown(const Document&, const std::vector<std::string>& charts);
/// One table of it.
std::string markdown_table(const Table&);
/// results.csv: one line a row, always the same columns (docs/schema/results_csv.md).
std::string csv(const Analysis&);
/// results.json: everything, with the raw samples (docs/schema/results.schema.json). A line for each part,
/// and for each item of a list: without the spaces it is a third as long, and what changed is a line. The
/// samples are copied as they are stored, one run at a time.
void write_results(const std::filesystem::path&, const Analysis&);
/// A ratio as everything that is JSON has it; null where there is none.
Json ratio_json(const std::optional<Ratio>&);

/// report.html: the document with places for `charts`; what makes them interactive takes the place of
/// `kChartsMark`. Without charts the page needs nothing else.
std::string html(const Document&, const std::vector<std::string>& charts);
inline constexpr const char* kChartsMark = "<!--charts-->";

/// For a terminal: plain text and aligned tables, no charts.
std::string text(const Document&);

/// docs/schema/comparison.schema.json
Json comparison_json(const ComparedReports&);
}  // namespace optrush
