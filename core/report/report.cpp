#include "report/report.h"

#include <algorithm>

#include "base/files.h"
#include "launch/terminal.h"
#include "report/document.h"
#include "report/render.h"
#include "report/text_table.h"
#include "report/writers.h"

namespace optrush {
namespace fs = std::filesystem;

std::string write_report(const fs::path& folder, const ReportOptions& options) {
  const Analysis analysis = analyze(load_report(folder));
  const Document document = make_document(analysis);
  const std::vector<Chart> charts = make_charts(analysis);
  write_file(folder / "results.csv", csv(analysis));
  write_json(folder / "results.json", results_json(analysis));
  std::vector<std::string> drawn;
  const std::string problem = draw(folder, charts, html(document, charts), options.png);
  if (problem.empty())
    for (const auto& chart : charts) drawn.push_back(chart.name);
  else
    write_file(folder / "report.html", html(document, {}));
  write_file(folder / "report.md", markdown(document, drawn));
  return problem.empty() ? "" : "the report has tables only, no charts: " + problem;
}

std::string ladder_table(const Analysis& analysis) {
  Section ladder = ladder_section(analysis);
  Table& table = *ladder.table;
  // Too wide for a terminal; report.md has them.
  const auto phases =
      std::ranges::find(table.columns, "step phases", &Table::Column::title) - table.columns.begin();
  table.columns.erase(table.columns.begin() + phases);
  for (auto& row : table.rows) row.erase(row.begin() + phases);
  std::string text = text_table(table);
  for (const auto& bullet : ladder.bullets) text += printable(bullet) + "\n";
  for (const Row& row : analysis.rows)
    if (!row.ok())
      text += printable(row.name + ": " + std::string(to_string(row.status)) + ". " +
                        row.reason.substr(0, row.reason.find('\n'))) +
              "\n";
  text += "\n" + printable(analysis.finding) + "\n";
  for (const auto& warning : warnings_of(analysis)) text += "Warning: " + printable(warning) + "\n";
  return text;
}
}  // namespace optrush
