// Warnings of a report: disturbed rounds, a base that drifts, and warnings of the runs.
#include <gmock/gmock.h>

#include <numeric>

#include "analysis/analysis.h"
#include "analysis/noise.h"
#include "report/sections/document.h"
#include "report_fixture.h"

namespace optrush {
namespace {
using test::analysis_of;
using test::row;
using test::three_rungs;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Analysis, DriftIsTheBaseAfterEverythingElse) {
  auto report = three_rungs();
  EXPECT_FALSE(analysis_of(report).drift);
  report.drift_tokens_per_second = 900;
  const Analysis a = analysis_of(report);
  EXPECT_NEAR(a.drift->last / a.drift->first, 0.9, 0.01);
  EXPECT_EQ(row(a, "base").samples.size(), 3U) << "the drift run is not a round";
}

Row measured(const std::string& name, std::vector<double> samples) {
  Row row;
  row.name = name;
  row.rounds.resize(samples.size());
  std::iota(row.rounds.begin(), row.rounds.end(), 0);
  row.samples = std::move(samples);
  return row;
}

TEST(DisturbedRounds, DifferFromOtherRoundsOfTheRowAndOtherRowsOfTheRound) {
  const Row steady = measured("steady", {500, 510, 490}), fast = measured("fast", {900, 1000, 950});
  EXPECT_TRUE(disturbed_rounds({steady, fast}).empty());
  const auto slow = disturbed_rounds({measured("base", {184, 951, 1519}), steady, fast});
  ASSERT_EQ(slow.size(), 1U);
  EXPECT_EQ(slow[0].row, "base");
  EXPECT_EQ(slow[0].round, 0);
  EXPECT_NEAR(slow[0].speed, 184.0 / 951, 0.02);
  EXPECT_THAT(disturbed_warning(slow), HasSubstr("rows: round 1 of base (80 % slower)."));
  const auto quick = disturbed_rounds({steady, fast, measured("lucky", {100, 100, 250})});
  ASSERT_EQ(quick.size(), 1U);
  EXPECT_EQ(quick[0].round, 2);
  EXPECT_THAT(disturbed_warning(quick), HasSubstr("rows: round 3 of lucky (2.5 times as fast)."));
  EXPECT_TRUE(disturbed_rounds({measured("two", {100, 500}), steady, fast}).empty())
      << "either round may be disturbed";
  EXPECT_TRUE(disturbed_rounds({measured("a", {100, 500, 520}), measured("b", {200, 1000, 900})}).empty())
      << "the whole round was slow, so ratios are unaffected";
}

TEST(DisturbedRounds, WarningNamesTheFirst) {
  EXPECT_EQ(disturbed_warning({}), "");
  std::vector<DisturbedRound> many(6, {"x", 4, 0.25});
  EXPECT_THAT(disturbed_warning(many), HasSubstr("round 5 of x (75 % slower), 2 more."));
  Analysis a = analysis_of(three_rungs());
  EXPECT_TRUE(warnings_of(a).empty());
  a.rows[1].samples.back() /= 4;
  EXPECT_THAT(warnings_of(a), Contains(AllOf(HasSubstr("rows: round 3 of one (7"), HasSubstr("--rounds N"))));
  a.tried = Tried{};
  EXPECT_THAT(warnings_of(a),
              Contains(AllOf(HasSubstr("rows: round 3 of one (7"), Not(HasSubstr("--rounds")))))
      << "a search refuses --rounds";
}

TEST(Analysis, RungsWithTheSameWarningShareALine) {
  Analysis a = analysis_of(three_rungs());
  for (const size_t row : {0, 1}) a.rows[row].warnings = {"most of an update is lost"};
  a.rows[1].warnings.push_back("memory grows");
  EXPECT_THAT(warnings_of(a), ElementsAre("base, one: most of an update is lost.", "one: memory grows."));
}

TEST(Analysis, ABaseThatDriftsFarIsAWarningAtTheTop) {
  auto report = three_rungs();
  report.drift_tokens_per_second = 950;
  EXPECT_TRUE(make_document(analysis_of(report)).warnings.empty());
  report.drift_tokens_per_second = 650;
  const Document document = make_document(analysis_of(report));
  ASSERT_EQ(document.warnings.size(), 1U);
  EXPECT_THAT(document.warnings[0],
              HasSubstr("The base was 34.8 % slower in its last run than in its rounds"));
  report.drift_tokens_per_second = 1210;
  EXPECT_THAT(make_document(analysis_of(report)).warnings,
              ElementsAre(HasSubstr("% faster in its last run than in its rounds")));
}
}  // namespace
}  // namespace optrush
