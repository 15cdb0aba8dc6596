#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "report/writers/writers.h"
#include "report_fixture.h"

namespace optrush {
namespace {
using test::analysis_of;
using test::rung;
using test::three_rungs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

const Chart& chart(const std::vector<Chart>& charts, const std::string& name) {
  const auto found = std::ranges::find(charts, name, &Chart::name);
  EXPECT_NE(found, charts.end()) << name;
  return *found;
}

TEST(Families, LaddersAblationsAndGridsHaveTablesOfTheirOwn) {
  EXPECT_EQ(families_of(analysis_of(three_rungs())).size(), 1U);
  EXPECT_EQ(families_of(analysis_of(test::ablation())).size(), 1U) << "the base alone makes no ladder";
  auto report = three_rungs();
  Part part{.arrangement = Arrangement::ablation, .rungs = {rung("four", "lora"), rung("five", "tf32")}};
  report.experiment.parts.push_back(part);
  const Analysis a = analysis_of(report);
  const auto families = families_of(a);
  ASSERT_EQ(families.size(), 2U);
  EXPECT_EQ(families[0].rows.size(), 4U);
  EXPECT_EQ(families[1].suffix, "-ablation");
  EXPECT_EQ(families[1].rows.front()->name, "full");
}

TEST(Charts, EachFamilyHasItsOwnCharts) {
  auto report = three_rungs();
  Part part{.arrangement = Arrangement::ablation, .rungs = {rung("four", "lora"), rung("five", "tf32")}};
  report.experiment.parts.push_back(part);
  const auto charts = charts_of(analysis_of(report));
  std::vector<std::string> names;
  for (const Chart& each : charts) names.push_back(each.name);
  EXPECT_THAT(names,
              ElementsAre("speed", "speed-ablation", "memory", "memory-ablation", "loss", "loss-ablation",
                          "phases", "phases-ablation", "throughput", "throughput-ablation"));
  for (const char* what : {"speed", "memory", "throughput"}) {
    const std::string ladder = chart(charts, what).data.dump(),
                      ablation = chart(charts, what + std::string("-ablation")).data.dump();
    EXPECT_THAT(ladder, HasSubstr("\"three\""));
    EXPECT_THAT(ladder, Not(HasSubstr("without four")));
    EXPECT_THAT(ablation, HasSubstr("without four"));
    EXPECT_THAT(ablation, Not(HasSubstr("\"three\"")));
  }
}

// Two rungs with different speeds on the way to a loss. One rung alone has the curve of its losses.
TEST(Charts, LossesOverTimeNeedValidationOrATarget) {
  auto report = three_rungs();
  const auto names_of = [](const std::vector<Chart>& charts) {
    std::set<std::string> names;
    for (const Chart& each : charts) names.insert(each.name);
    return names;
  };
  EXPECT_FALSE(names_of(charts_of(analysis_of(report))).contains("time"));
  report.experiment.base.validate.every = 5;
  const Analysis a = analysis_of(report);
  const Chart time = chart(charts_of(a), "time");
  EXPECT_EQ(time.kind, "loss_over_time");
  EXPECT_TRUE(time.data.at("target").is_null());
  const auto families = families_of(a);
  const Family& family = families.front();
  const Section section = time_section(a, family);
  EXPECT_EQ(section.chart, "time");
  EXPECT_EQ(section.table->rows.size(), rows_over_time(a, family.rows).size());
  EXPECT_EQ(section.table->rows.size(), time.data.at("lines").size());
  EXPECT_TRUE(rows_over_time(a, {family.rows.front()}).empty());
  report.experiment.target_loss = 4.84;
  EXPECT_EQ(chart(charts_of(analysis_of(report)), "time").data.at("target").at("text"), "4.84");
}

TEST(Charts, SpeedsLabelFailuresAndOtherProblems) {
  auto report = three_rungs();
  report["two"].status = "oom";
  report["three"].status = "failed";
  const auto labels_and_problems = [&] {
    const Json data = chart(charts_of(analysis_of(report)), "speed").data;
    std::string labels;
    bool one_problem = true;
    for (const auto& row : data.at("rows")) {
      labels += row.at("rung").get<std::string>() + ": " + row.at("label").get<std::string>() + "\n";
      one_problem = one_problem && row.value("same_problem", true);
    }
    return std::pair(labels, one_problem);
  };
  auto [labels, one_problem] = labels_and_problems();
  EXPECT_THAT(labels, HasSubstr("two: out of memory\n"));
  EXPECT_THAT(labels, HasSubstr("three: failed\n"));
  EXPECT_TRUE(one_problem) << "all rungs have the problem of the base";
  report.experiment.parts[0].rungs.push_back(test::setting("longer", {{"train", {{"seq_len", 4096}}}}));
  std::tie(labels, one_problem) = labels_and_problems();
  EXPECT_THAT(labels, HasSubstr(" †"));
  EXPECT_FALSE(one_problem);
}

TEST(Charts, CurvesOfAGridNameTheUnitOfEachColumn) {
  const Json data = chart(charts_of(analysis_of(test::grid())), "grid").data;
  std::map<std::string, std::string> units;
  for (const Json& column : data.at("columns")) units[column.at("title")] = column.at("unit");
  EXPECT_EQ(units.size(), 2U);
  EXPECT_EQ(units.at("peak memory"), "bytes");
  for (const Json& point : data.at("points")) EXPECT_FALSE(point.at("text").get<std::string>().empty());
}

TEST(Charts, LossesThatAgreeAreShownByTheirDistance) {
  auto report = three_rungs();
  report["two"].loss_error = report["three"].loss_error = 1e-5;
  const Json data = chart(charts_of(analysis_of(report)), "loss").data;
  ASSERT_EQ(data.at("lines").size(), 1U);
  EXPECT_EQ(data.at("lines")[0].at("name"), "base and 3 others");
  ASSERT_EQ(data.at("distances").size(), 1U) << "the other rungs are bit-equal";
  const Json& two = data.at("distances")[0];
  EXPECT_EQ(two.at("rung"), "two");
  EXPECT_EQ(two.at("allowed"), 1e-4);
  double apart = 0;
  for (const auto& point : two.at("apart")) apart = std::max(apart, point[1].get<double>());
  EXPECT_NEAR(apart, 1e-5, 1e-6);
  const Json equal = chart(charts_of(analysis_of(three_rungs())), "loss").data;
  EXPECT_TRUE(equal.at("distances").empty()) << "nothing differs";
}

TEST(Charts, ManyRungsAreReducedToTheFirstAndTheFastest) {
  test::SyntheticReport report("many", 3);
  std::vector<Rung> rungs;
  for (int i = 1; i <= 200; ++i) {
    rungs.push_back(rung("rung " + std::to_string(i), "lora", {{"rank", i}}));
    if (i > 1) rungs.back().replace = {"lora"};
    report["rung " + std::to_string(i)].tokens_per_second = 1000 + i;
  }
  report.ladder(rungs);
  for (const Chart& each : charts_of(analysis_of(report))) {
    const Json& data = each.data;
    if (each.kind == "loss") continue;  // one line, since all losses agree
    const Json& drawn = data.contains("rows") ? data.at("rows") : data.at("rungs");
    EXPECT_EQ(drawn.size(), 60U) << each.name;
    EXPECT_EQ(drawn.front().at("rung"), "base");
    EXPECT_EQ(drawn.at(1).at("rung"), "rung 142");
    EXPECT_EQ(drawn.back().at("rung"), "rung 200");
    EXPECT_THAT(each.note, HasSubstr("the first and the 59 fastest of 201 rungs"));
  }
}

TEST(Charts, ManyStepsAreThinnedOutButKeepTheLast) {
  Analysis a = analysis_of(three_rungs());
  for (Row& row : a.rows) {
    const StepResult last = row.steps.back();
    while (row.steps.size() < 4500) {
      row.steps.push_back(last);
      row.steps.back().step = static_cast<int64_t>(row.steps.size()) - 1;
    }
  }
  for (const char* name : {"loss", "throughput"}) {
    const Chart chart_of_steps = chart(charts_of(a), name);
    EXPECT_EQ(chart_of_steps.note, "one in 5 steps");
    const Json& steps = chart_of_steps.data.contains("lines")
                            ? chart_of_steps.data.at("lines")[0].at("losses")
                            : chart_of_steps.data.at("rungs")[0].at("steps");
    EXPECT_LE(steps.size(), 901U);
    EXPECT_GE(steps.size(), 899U);
    EXPECT_EQ(steps.back()[0], 4499);
  }
}

TEST(Charts, OnlyRungsThatRanHaveASpeed) {
  auto report = three_rungs();
  for (const char* rung : {"base", "one", "two", "three"})
    report[rung].flops_per_token = 1e12;  // above the peak
  for (const Chart& each : charts_of(analysis_of(report))) EXPECT_NE(each.name, "speed");
}
}  // namespace
}  // namespace optrush
