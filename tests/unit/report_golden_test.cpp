// Compares the report's text with files in tests/fixtures/reports. OPTRUSH_UPDATE_GOLDENS=1 writes them. All
// numbers in them are synthetic.
#include <gtest/gtest.h>

#include <algorithm>
#include <clocale>
#include <cstdlib>
#include <locale>
#include <sstream>

#include "analysis/compare.h"
#include "analysis/numbers/format.h"
#include "analysis/quantities.h"
#include "base/files.h"
#include "base/temporary_folder.h"
#include "optrush/error.h"
#include "report/claims/claims.h"
#include "report/report.h"
#include "report/writers/summary.h"
#include "report/writers/writers.h"
#include "report_fixture.h"
#include "schema_file.h"
#include "support/folders.h"

namespace optrush {
namespace {
namespace fs = std::filesystem;

/// A locale that writes 1234.5 as "1.234,5".
class DecimalComma {
 public:
  DecimalComma() : before_(std::locale::global(std::locale(std::locale(), new Punctuation))) {
    for (const char* name : {"de_DE.UTF-8", "de_DE", "fr_FR.UTF-8"})
      if (std::setlocale(LC_ALL, name)) break;
  }
  ~DecimalComma() {
    std::locale::global(before_);
    std::setlocale(LC_ALL, "C");
  }
  DecimalComma(const DecimalComma&) = delete;
  DecimalComma& operator=(const DecimalComma&) = delete;

 private:
  struct Punctuation : std::numpunct<char> {
    char do_decimal_point() const override { return ','; }
    char do_thousands_sep() const override { return '.'; }
    std::string do_grouping() const override { return "\3"; }
  };
  std::locale before_;
};

void expect_text_of(const fs::path& file, const std::string& text) {
  if (std::getenv("OPTRUSH_UPDATE_GOLDENS")) write_file(file, text);
  // Reports only the first line that differs.
  std::istringstream found(text), expected(read_file(file));
  for (int number = 1; found || expected; ++number) {
    std::string found_line, expected_line;
    std::getline(found, found_line);
    std::getline(expected, expected_line);
    ASSERT_EQ(found_line, expected_line) << file << ":" << number;
  }
}

void expect_golden(const std::string& name, const std::string& text) {
  expect_text_of(fs::path(testing::tests_folder()) / "fixtures/reports" / name, text);
}

void expect_all_golden(const std::string& name, const test::SyntheticReport& report) {
  const TemporaryFolder folder;
  report.write(folder.path());
  const Analysis analysis = analyze(load_report(folder.path()));
  std::vector<std::string> charts;
  for (const auto& chart : charts_of(analysis)) charts.push_back(chart.name);
  expect_golden(name + "/report.md", markdown(make_document(analysis), charts));
  expect_golden(name + "/results.csv", csv(analysis));
  expect_golden(name + "/terminal.txt", ladder_table(analysis));
  const Summary summary = summary_of(analysis);
  expect_golden(name + "/summary.txt", summary_line(summary));
  if (name != "short" && name != "scaling" && name != "validated") return;
  expect_golden(name + "/summary.json", to_json(summary).dump(1) + "\n");
  write_results(folder / "results.json", analysis);
  expect_golden(name + "/results.json", read_json(folder / "results.json").dump(1) + "\n");
  std::vector<StoredRun> runs = analysis.runs;
  if (name == "validated") runs.erase(runs.begin(), runs.end() - 1);
  // One run with several ranks, for the fields of ranks.
  if (name == "scaling")
    runs = {*std::ranges::find(runs, 2, [](const StoredRun& run) { return run.spec.train.world_size; })};
  expect_golden(name + "/runs.jsonl", test::packed(folder.path(), runs));
}

void expect_every_report() {
  expect_all_golden("short", test::short_ladder());
  expect_all_golden("long", test::long_ladder());
  expect_all_golden("validated", test::validated());
  expect_all_golden("ablation", test::ablation());
  expect_all_golden("grid", test::grid());
  expect_all_golden("scaling", test::scaling());
}

TEST(ReportGolden, EveryReportMatches) { expect_every_report(); }

TEST(ReportGolden, EveryReportMatchesWithDecimalCommas) {
  const DecimalComma comma;
  expect_every_report();
}

TEST(ReportGolden, ColumnsOfResultsCsvAreDocumented) {
  const fs::path file = fs::path(testing::tests_folder()).parent_path() / "docs/schema/results_csv.md";
  const std::string head = "| column | meaning |\n| :--- | :--- |\n", before = read_file(file);
  ASSERT_NE(before.find(head), std::string::npos);
  std::string text = before.substr(0, before.find(head)) + head;
  for (const Quantity& q : quantities())
    if (const std::string name = q.csv; !name.empty()) text += "| " + name + " | " + q.doc + " |\n";
  expect_text_of(file, text);
}

TEST(ReportGolden, TheSchemaOfTheSummaryIsMadeFromItsFields) {
  testing::expect_schema("summary", "Summary", fields_of<Summary>().schema());
}

// Markdown is also read as plain text, in a terminal or a diff.
TEST(ReportGolden, TheTableOfRungsFits120Columns) {
  for (const auto& report :
       {test::short_ladder(), test::validated(), test::ablation(), test::grid(), test::scaling()}) {
    const Analysis analysis = test::analysis_of(report);
    for (const Section& section : ladder_sections(analysis))
      for (const std::string& text : {markdown_table(*section.table), text_table(*section.table)}) {
        std::istringstream lines(text);
        for (std::string line; std::getline(lines, line);) EXPECT_LE(characters(line), 120U) << line;
      }
  }
}

TEST(ReportGolden, Comparison) {
  const TemporaryFolder a, b, c;
  test::short_ladder().write(a.path());
  auto other = test::short_ladder();
  other.context["host"] = "another";
  other.context["cpu"]["name"] = "Another synthetic device";
  other["bf16 autocast"].tokens_per_second = 3000;
  other["fused AdamW"] = {.status = "oom", .reason = "out of memory"};
  other.experiment.parts[0].rungs.push_back(test::rung("checkpointing", "activation_checkpointing"));
  other["checkpointing"].loss_error = 1e-3;
  other.write(b.path());
  auto third = test::short_ladder();
  third.experiment.arguments = {{"layers", 4}};
  third.context["memory_bytes"] = int64_t{64} << 30;
  third.context["bandwidth_bytes_per_second"] = 10333342824.293709;
  third["bf16 autocast"].tokens_per_second = 1500;
  third.write(c.path());
  ComparedReports compared = compare_reports({a.path(), b.path(), c.path()}, add_answer);
  for (auto& report : compared.reports) report.folder = "reports/" + report.name;
  const Document document = comparison_document(compared);
  expect_golden("comparison.txt", text(document));
  expect_golden("comparison.md", markdown(document, {}));
  expect_golden("comparison.html", html(document, {}));
  expect_golden("comparison.json", comparison_json(compared).dump(1) + "\n");
  EXPECT_THROW(compare_reports({a.path()}, add_answer), UsageError);
}
}  // namespace
}  // namespace optrush
