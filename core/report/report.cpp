#include "report/report.h"

#include <future>

#include "base/files.h"
#include "base/printable.h"
#include "base/text.h"
#include "machine/stand_in.h"
#include "report/claims/claims.h"
#include "report/sections/document.h"
#include "report/writers/render.h"
#include "report/writers/summary.h"
#include "report/writers/writers.h"

namespace optrush {
namespace fs = std::filesystem;

Analysis analyze(const fs::path& folder, const ReportOptions& options, const ResultParts& keep) {
  Stored stored = load_report(folder, keep);
  if (options.target_loss) stored.experiment.target_loss = *options.target_loss;
  return analyze(std::move(stored));
}

namespace {
/// Writes all files. Returns why there are no charts; "" if there are, or none are needed.
std::string write_files(const fs::path& folder, const Analysis& analysis, ChartProcess& drawing, bool png) {
  // Another process draws the charts meanwhile.
  auto results = std::async(std::launch::async, [&] { write_results(folder / "results.json", analysis); });
  const Document document = make_document(analysis);
  const std::vector<Chart> charts = charts_of(analysis);
  std::vector<std::string> names = texts_of(charts, &Chart::name);
  if (!charts.empty()) drawing.begin(analysis, charts, html(document, names), png);
  write_file(folder / "results.csv", csv(analysis));
  const Summary summary = summary_of(analysis);
  write_json(folder / "summary.json", to_json(summary));
  write_file(folder / "summary.txt", summary_line(summary));
  const std::string problem = charts.empty() ? "" : drawing.finish();
  if (!problem.empty()) names.clear();
  if (names.empty()) write_file(folder / "report.html", html(document, {}));
  write_file(folder / "report.md", markdown(document, names));
  results.get();
  return problem;
}
}  // namespace

WrittenReport write_report(const fs::path& folder, const ReportOptions& options) {
  ChartProcess drawing(folder);
  WrittenReport written{analyze(folder, options), ""};
  if (ran_on_stand_in(written.analysis.context))
    write_file(folder / "report.md", std::string(kNothingComputed) + "\n");
  else if (const std::string problem = write_files(folder, written.analysis, drawing, options.png);
           !problem.empty())
    written.warning = "the report has tables only, no charts: " + problem;
  return written;
}

std::string ladder_table(const Analysis& analysis, size_t width) {
  if (ran_on_stand_in(analysis.context)) {
    std::string text;
    for (const Row& row : analysis.rows)
      if (!row.ok())
        text +=
            printable(row.name + ": " + std::string(to_string(row.status)) + ". " + with_cure(row.reason)) +
            "\n";
    return text + kNothingComputed + "\n";
  }
  std::string text = text_lines(headline(analysis), width);
  for (const auto& warning : warnings_of(analysis)) text += text_lines("Warning: " + warning, width);
  for (const Section& section : ladder_sections(analysis)) {
    text += "\n" + (section.title.empty() ? "" : section.title + "\n") + text_table(*section.table, width);
    for (const auto& bullet : section.bullets) text += text_lines(bullet, width);
  }
  text += "\n";
  for (const auto& finding : findings(analysis)) text += text_lines("- " + finding, width);
  return text;
}
}  // namespace optrush
