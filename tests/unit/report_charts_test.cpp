#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

#include "report/chart_parts.h"
#include "report/writers.h"
#include "report_fixture.h"

namespace optrush {
namespace {
using test::analysis_of;
using test::rung;
using test::three_rungs;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

const Chart& chart(const std::vector<Chart>& charts, const std::string& name) {
  const auto found = std::ranges::find(charts, name, &Chart::name);
  EXPECT_NE(found, charts.end()) << name;
  return *found;
}

TEST(Families, LaddersAblationsAndGridsHaveTablesOfTheirOwn) {
  EXPECT_EQ(families_of(analysis_of(three_rungs())).size(), 1U);
  EXPECT_EQ(families_of(analysis_of(test::ablation())).size(), 1U) << "the base alone is no ladder";
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

TEST(Charts, EachFamilyHasItsOwn) {
  auto report = three_rungs();
  Part part{.arrangement = Arrangement::ablation, .rungs = {rung("four", "lora"), rung("five", "tf32")}};
  report.experiment.parts.push_back(part);
  const auto charts = make_charts(analysis_of(report));
  std::vector<std::string> names;
  for (const Chart& each : charts) names.push_back(each.name);
  EXPECT_THAT(names, ElementsAre("speed", "speed-ablation", "memory", "memory-ablation", "loss",
                                 "loss-ablation", "throughput", "throughput-ablation"));
  for (const char* what : {"speed", "memory", "throughput"}) {
    const std::string ladder = chart(charts, what).spec.dump(),
                      ablation = chart(charts, what + std::string("-ablation")).spec.dump();
    EXPECT_THAT(ladder, HasSubstr("\"three\""));
    EXPECT_THAT(ladder, Not(HasSubstr("without four")));
    EXPECT_THAT(ablation, HasSubstr("without four"));
    EXPECT_THAT(ablation, Not(HasSubstr("\"three\"")));
  }
}

// Two rungs of other speeds on the way to a loss; one alone is the curve of its losses.
TEST(Charts, LossesOverTimeAreOfRungsThatAreAskedForATarget) {
  auto report = three_rungs();
  const auto names_of = [](const std::vector<Chart>& charts) {
    std::set<std::string> names;
    for (const Chart& each : charts) names.insert(each.name);
    return names;
  };
  EXPECT_FALSE(names_of(make_charts(analysis_of(report))).contains("time"));
  report.experiment.base.validate.every = 5;
  const Analysis a = analysis_of(report);
  const Json spec = chart(make_charts(a), "time").spec;
  EXPECT_THAT(spec.dump(), HasSubstr("seconds of training"));
  EXPECT_THAT(spec.dump(), Not(HasSubstr("target")));
  const auto families = families_of(a);
  const Family& family = families.front();
  const Section section = time_section(a, family);
  EXPECT_EQ(section.chart, "time");
  EXPECT_EQ(section.table->rows.size(), rows_over_time(a, family.rows).size());
  EXPECT_TRUE(rows_over_time(a, {family.rows.front()}).empty());
  report.experiment.target_loss = 4.84;
  EXPECT_THAT(chart(make_charts(analysis_of(report)), "time").spec.dump(), HasSubstr("target 4.84"));
}

TEST(Charts, SpeedsSayWhatFailedAndWhatIsAnotherProblem) {
  auto report = three_rungs();
  report["two"].status = "oom";
  report["three"].status = "failed";
  const auto labels_and_legend = [&] {
    const Json spec = chart(make_charts(analysis_of(report)), "speed").spec;
    std::string labels;
    for (const auto& value : spec.at("data").at("values"))
      labels += value.at("rung").get<std::string>() + ": " + value.at("label").get<std::string>() + "\n";
    return std::pair(labels, spec.at("layer")[0].at("encoding").at("color").at("legend"));
  };
  auto [labels, legend] = labels_and_legend();
  EXPECT_THAT(labels, HasSubstr("two: out of memory\n"));
  EXPECT_THAT(labels, HasSubstr("three: failed\n"));
  EXPECT_TRUE(legend.is_null()) << "all rungs have the problem of the base";
  report.experiment.parts[0].rungs.push_back(test::setting("longer", {{"train", {{"seq_len", 4096}}}}));
  std::tie(labels, legend) = labels_and_legend();
  EXPECT_THAT(labels, HasSubstr(" †"));
  EXPECT_TRUE(legend.is_object());
}

TEST(Charts, CurvesOfBytesAreMarkedByPowersOfTwo) {
  const Json spec = chart(make_charts(analysis_of(test::grid())), "grid").spec;
  std::set<std::string> shown;
  for (const Json& panel : spec.at("vconcat")) {
    const Json& encoding = panel.at("encoding");
    EXPECT_EQ(encoding.at("x").at("scale").at("base"), 2);
    const std::string title = encoding.at("y").at("title");
    shown.insert(title);
    const Json ticks = encoding.at("y").at("axis").value("values", Json::array());
    if (title.find("memory") == std::string::npos) continue;
    ASSERT_GE(ticks.size(), 2U);
    EXPECT_EQ(std::exp2(std::round(std::log2(ticks[1].get<double>()))), ticks[1]);
  }
  EXPECT_EQ(shown.size(), 2U);
}

/// Settings below 1 are marked as they are, losses not from zero on, and panels share the axis of the
/// setting.
TEST(Charts, CurvesOverFractions) {
  test::SyntheticReport report("rates", 3);
  Part part{.arrangement = Arrangement::grid};
  part.axes.resize(1);
  for (const double lr : {0.0005, 0.001, 0.004})
    part.axes[0].push_back(test::setting("lr " + std::to_string(lr), {{"train", {{"lr", lr}}}}));
  part.view = {.x = "train.lr", .curves = {"step_time", "loss"}};
  report.experiment.parts.push_back(part);
  const Json panels = chart(make_charts(analysis_of(report)), "grid").spec.at("vconcat");
  ASSERT_EQ(panels.size(), 2U);
  for (const Json& panel : panels) {
    const Json& x = panel.at("encoding").at("x");
    EXPECT_EQ(x.at("axis").at("format"), "~g");
    EXPECT_EQ(x.at("axis").at("values"), Json({0.0005, 0.001, 0.004}));
    EXPECT_EQ(x.at("scale").at("domain"), Json({0.0005, 0.004}));
  }
  EXPECT_EQ(panels[0].at("encoding").at("y").at("scale").at("zero"), true);
  EXPECT_EQ(panels[1].at("encoding").at("y").at("scale").at("zero"), false);
}

TEST(Charts, LossesThatAgreeAreToldApartByTheirDistance) {
  auto report = three_rungs();
  report["two"].loss_error = report["three"].loss_error = 1e-5;
  const Json spec = chart(make_charts(analysis_of(report)), "loss").spec;
  ASSERT_EQ(spec.at("vconcat").size(), 2U);
  EXPECT_THAT(spec.at("vconcat")[0].dump(), HasSubstr("base and 3 others"));
  EXPECT_THAT(spec.at("vconcat")[1].at("facet").at("row").at("sort"), Json({"two"}))
      << "the others are bit-equal";
  double apart = 0, allowed = 0;
  for (const auto& value : spec.at("data").at("values")) {
    apart = std::max(apart, value.value("apart", 0.0));
    allowed = value.value("allowed", allowed);
  }
  EXPECT_NEAR(apart, 1e-5, 1e-6);
  EXPECT_EQ(allowed, 1e-4);
  const Json equal = chart(make_charts(analysis_of(three_rungs())), "loss").spec;
  EXPECT_EQ(equal.at("vconcat").size(), 1U) << "nothing differs";
}

TEST(Charts, StepsAreMarkedByRoundNumbers) {
  const auto ticks = [](double last) {
    return step_axis({{{"step", 0}}, {{"step", last}}}).at("axis").at("values");
  };
  EXPECT_EQ(ticks(4), Json({0.0, 1.0, 2.0, 3.0, 4.0}));
  EXPECT_EQ(ticks(20)[1], 2);
  EXPECT_EQ(ticks(40)[1], 5);
  EXPECT_EQ(ticks(100)[1], 10);
  EXPECT_EQ(ticks(200)[1], 20);
}

TEST(Charts, OnlyRungsThatRanHaveASpeed) {
  auto report = three_rungs();
  for (const char* rung : {"base", "one", "two", "three"})
    report[rung].flops_per_token = 1e12;  // above the peak
  for (const Chart& each : make_charts(analysis_of(report))) EXPECT_NE(each.name, "speed");
}

TEST(Charts, ManyLinesAreToldApartByColourAndDash) {
  const std::vector<std::string> names(3 * kPalette.size(), "name");
  const Json colours = colour_by("line", names).at("scale").at("range"),
             dashes = dash_by("line", names).at("scale").at("range");
  std::set<std::string> styles;
  for (size_t i = 0; i < names.size(); ++i) styles.insert(colours[i].dump() + dashes[i].dump());
  EXPECT_EQ(styles.size(), names.size());
}
}  // namespace
}  // namespace optrush
