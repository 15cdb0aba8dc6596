// Which figures a report prints, and what the lines around the table say.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "analysis/numbers/format.h"
#include "base/temporary_folder.h"
#include "report/report.h"
#include "report/sections/cost_section.h"
#include "report/sections/document.h"
#include "report/writers/writers.h"
#include "report_fixture.h"

namespace optrush {
namespace {
using test::rung;
using test::SyntheticReport;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

/// The stored files of a report, for changes that a fixture has no field for.
Stored stored_of(const SyntheticReport& report) {
  const TemporaryFolder folder;
  report.write(folder.path());
  return load_report(folder.path());
}

std::vector<std::string> titles_of(const Section& section) {
  std::vector<std::string> titles;
  for (const auto& column : section.table->columns) titles.push_back(column.title);
  return titles;
}

Section throughput_of(const Analysis& a) { return throughput_section(a, families_of(a).front()); }

const std::vector<std::string>& line_of(const Section& section, const std::string& rung) {
  return *std::ranges::find(section.table->rows, rung, [](const auto& cells) { return cells.front(); });
}

TEST(Figures, CostsOfCodeThatAPlanLeavesOutAreUnknown) {
  Stored stored = stored_of(test::short_ladder());
  const int64_t last = std::ssize(stored.variants) - 1;
  stored.plans[static_cast<size_t>(last)]->memory->bounded_by = "units are compiled";
  const Analysis a = analyze(std::move(stored));
  const Section section = cost_section(a);
  const auto& cells = line_of(section, a.rows.back().name);
  for (size_t i = 1; i < cells.size(); ++i)
    EXPECT_TRUE(section.table->columns[i].title == "peak" || cells[i] == kUnknown) << cells[i];
  EXPECT_THAT(section.bullets, Contains(HasSubstr("compiled or recorded code are not known")));
  EXPECT_NE(line_of(section, "base")[1], kUnknown);
}

TEST(Figures, AttentionCountsTheFlopsThatKernelsNote) {
  Stored stored = stored_of(test::short_ladder());
  for (StoredRun& run : stored.runs)
    if (run.result.costs.is_object()) run.result.costs["total"]["noted_flops"] = 7'600'000'000;
  const Section section = cost_section(analyze(std::move(stored)));
  const auto titles = titles_of(section);
  const auto at = static_cast<size_t>(std::ranges::find(titles, "attention") - titles.begin());
  EXPECT_EQ(section.table->rows.front().at(at), "7.60 GFLOP");
}

TEST(Figures, WithoutAGpuItsCountsAreLeftOut) {
  Stored stored = stored_of(test::short_ladder());
  for (StoredRun& run : stored.runs)
    if (run.result.costs.is_object()) run.result.costs["total"]["copies"] = nullptr;
  EXPECT_THAT(titles_of(cost_section(analyze(stored))), Not(Contains("launches")));
  for (StoredRun& run : stored.runs)
    if (run.result.costs.is_object()) run.result.costs["total"]["copies"] = 2;
  EXPECT_THAT(titles_of(cost_section(analyze(stored))), Contains("launches"));
}

TEST(Figures, NoFlopsAreNoMfu) {
  SyntheticReport report = test::short_ladder();
  report["base"].flops_per_token = 0;
  const Analysis a = analysis_of(report);
  EXPECT_FALSE(a.rows.front().mfu);
  EXPECT_FALSE(a.rows.front().model_flops_per_second);
  EXPECT_EQ(line_of(throughput_of(a), "base")[2], kUnknown);
  report["base"].flops_per_token = 1e5;
  EXPECT_THAT(line_of(throughput_of(analysis_of(report)), "base")[2], HasSubstr("below 0.1 %"));
}

TEST(Figures, AnHfuBelowTheMfuIsExplained) {
  Stored stored = stored_of(test::short_ladder());
  EXPECT_THAT(throughput_of(analyze(stored)).bullets, Not(Contains(HasSubstr("HFU is below MFU"))));
  for (StoredRun& run : stored.runs)
    if (run.result.hfu_flops) run.result.hfu_flops = *run.result.mfu_flops * 0.9;
  EXPECT_THAT(throughput_of(analyze(std::move(stored))).bullets, Contains(HasSubstr("HFU is below MFU")));
}

TEST(Figures, ColumnsThatSayNothingAreLeftOut) {
  const auto titles = titles_of(throughput_of(analysis_of(test::short_ladder())));
  for (const char* title : {"devices", "tokens/s per device", "compile", "padding", "trained tokens/s"})
    EXPECT_THAT(titles, Not(Contains(title)));
  EXPECT_THAT(titles_of(throughput_of(analysis_of(test::scaling()))), Contains("tokens/s per device"));
}

TEST(Figures, RanksOnTheSameHardwareHaveNoEfficiency) {
  ScalingPoint point{.ranks = 2, .speedup = Ratio{.value = 0.98}, .growth = 1, .efficiency = 0.98};
  EXPECT_EQ(point.efficiency_text(), kUnknown);
  point.growth = 2;
  EXPECT_EQ(point.efficiency_text(), "98.0 %");
}

TEST(Figures, AnIntervalWiderThanWantedIsStated) {
  SyntheticReport report = test::short_ladder();
  report.experiment.until = Until{.within = 0.5, .at_most_s = 60};
  EXPECT_THAT(method_section(analysis_of(report)).lead, Not(HasSubstr("the widest interval is")));
  report.experiment.until->within = 1e-4;
  EXPECT_THAT(method_section(analysis_of(report)).lead,
              AllOf(HasSubstr("for at most 60.0 s"), HasSubstr("; the widest interval is ±")));
}

TEST(Figures, TheHeadNamesModelTokensAndProcessor) {
  SyntheticReport report = test::short_ladder();
  report.context["cpu"]["model"] = "family 25, model 17";
  report.context["cpu"]["isa"] = {"avx2", "avx512_bf16"};
  report.experiment.base.data.kind = "text";
  report.experiment.base.data.path = "corpus.txt";
  const std::string byline = make_document(analysis_of(report)).byline;
  EXPECT_THAT(byline, HasSubstr("byte tokens"));
  EXPECT_THAT(byline, HasSubstr("(family 25, model 17), 2 cores, avx512_bf16"));
}

TEST(Lines, TheCheckHasItsTolerances) {
  const Analysis a = analysis_of(test::short_ladder());
  EXPECT_THAT(
      ladder_sections(a).front().bullets,
      Contains(AllOf(HasSubstr("✓ means that losses and gradient norms follow the reference: losses "),
                     HasSubstr(" allowed"))));
}

TEST(Lines, BarsHaveTheirScale) {
  Bars bars{1, {Interval{0.5, 0.9}, std::nullopt, Interval{1.1, 1.6}}};
  EXPECT_DOUBLE_EQ(bars.axis()->low, 0.5);
  EXPECT_DOUBLE_EQ(bars.axis()->high, 1.6);
  EXPECT_FALSE((Bars{1, {std::nullopt}}).axis());
}

TEST(Terminal, LinesBreakBetweenWords) {
  const Analysis a = analysis_of(test::long_ladder());
  const std::string narrow = ladder_table(a, 80), whole = ladder_table(a);
  std::istringstream lines(narrow);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(characters(line), 80U) << line;
  const auto words = [](const std::string& text) {
    std::istringstream in(text);
    return std::multiset<std::string>(std::istream_iterator<std::string>(in), {});
  };
  EXPECT_EQ(words(narrow), words(whole)) << "no word is cut";
}
}  // namespace
}  // namespace optrush
