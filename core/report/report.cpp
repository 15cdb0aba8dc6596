#include "report/report.h"

#include <algorithm>

#include "base/files.h"
#include "base/printable.h"
#include "base/text.h"
#include "machine/stand_in.h"
#include "report/analysis/stand_in.h"
#include "report/sections/document.h"
#include "report/writers/render.h"
#include "report/writers/text_table.h"
#include "report/writers/writers.h"

namespace optrush {
namespace fs = std::filesystem;

Analysis analyze(const fs::path& folder, const ReportOptions& options) {
  Stored stored = load_report(folder);
  if (options.target_loss) stored.experiment.target_loss = *options.target_loss;
  return analyze(stored);
}

namespace {
/// Returns why it has no charts; "": it has them, or has none to show.
std::string write_files(const fs::path& folder, const Analysis& analysis, bool png) {
  const Document document = make_document(analysis);
  write_file(folder / "results.csv", csv(analysis));
  write_json(folder / "results.json", results_json(analysis));
  const std::vector<Chart> charts = charts_of(analysis);
  std::vector<std::string> names;
  for (const auto& chart : charts) names.push_back(chart.name);
  const std::string page = html(document, names);
  const std::string problem = charts.empty() ? "" : draw(folder, analysis, charts, page, png);
  if (!problem.empty()) names.clear();
  if (names.empty()) write_file(folder / "report.html", html(document, {}));
  write_file(folder / "report.md", markdown(document, names));
  return problem;
}
}  // namespace

WrittenReport write_report(const fs::path& folder, const ReportOptions& options) {
  WrittenReport written{analyze(folder, options), ""};
  if (ran_on_stand_in(written.analysis.context))
    write_file(folder / "report.md", std::string(kNothingComputed) + "\n");
  else if (const std::string problem = write_files(folder, written.analysis, options.png); !problem.empty())
    written.warning = "the report has tables only, no charts: " + problem;
  return written;
}

namespace {
/// Too wide for a terminal; report.md has them.
void drop_phases(Table& table) {
  const auto phases =
      std::ranges::find(table.columns, "step phases", &Table::Column::title) - table.columns.begin();
  table.columns.erase(table.columns.begin() + phases);
  for (auto& row : table.rows) row.erase(row.begin() + phases);
}
}  // namespace

std::string ladder_table(const Analysis& analysis) {
  std::string text;
  const bool measured = !ran_on_stand_in(analysis.context);
  for (Section& section : measured ? ladder_sections(analysis) : std::vector<Section>()) {
    drop_phases(*section.table);
    if (!section.title.empty()) text += "\n" + section.title + "\n";
    text += text_table(*section.table);
    for (const auto& bullet : section.bullets) text += printable(bullet) + "\n";
  }
  for (const Row& row : analysis.rows)
    if (!row.ok())
      text += printable(row.name + ": " + std::string(to_string(row.status)) + ". " + with_cure(row.reason)) +
              "\n";
  if (!measured) return text + kNothingComputed + "\n";
  text += "\n" + printable(analysis.findings.front()) + "\n";
  for (size_t i = 1; i < analysis.findings.size(); ++i) text += "- " + printable(analysis.findings[i]) + "\n";
  for (const auto& warning : warnings_of(analysis)) text += "Warning: " + printable(warning) + "\n";
  return text;
}
}  // namespace optrush
