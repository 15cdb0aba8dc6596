// Rungs of several ranks: the report's sections on ranks, collectives and scaling.
#include <gmock/gmock.h>

#include "analysis/checked_rows.h"
#include "analysis/quantities.h"
#include "base/temporary_folder.h"
#include "optrush/error.h"
#include "report/claims/claims.h"
#include "report/sections/document.h"
#include "report_fixture.h"

namespace optrush {
namespace {
using test::row;
using test::rung;
using test::setting;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

const ScalingSeries& series(const Analysis& a, const std::string& title) {
  for (const auto& series : a.scaling)
    if (series.title() == title) return series;
  throw Error("no series " + title);
}

std::vector<std::string> rungs_of(const Analysis& a, const ScalingSeries& series) {
  std::vector<std::string> names;
  for (const auto& point : series.points) names.push_back(a.row(point.variant)->name);
  return names;
}

Rung ranks(int64_t size, int64_t micro_batch) {
  return setting(std::to_string(size) + " x " + std::to_string(micro_batch),
                 {{"train", {{"world_size", size}, {"micro_batch", micro_batch}}}});
}

TEST(Ranks, AReportOfRunsWithoutSpeedsClaimsNone) {
  const TemporaryFolder folder;
  test::scaling().write(folder.path());
  Stored stored = load_report(folder.path());
  for (StoredRun& run : stored.runs) run.result.withhold_speeds();
  stored.experiment.target_loss = 100;  // which every run reaches
  const Analysis a = analyze(std::move(stored));
  for (const Row& row : a.rows) {
    EXPECT_FALSE(row.tokens_per_second || row.step_seconds || row.mfu || row.exposed_seconds) << row.name;
    EXPECT_FALSE(row.previous.speed || row.base.speed || row.time_to_loss) << row.name;
    if (row.ok()) {
      EXPECT_TRUE(row.memory.allocated && row.final_loss) << row.name;
    }
  }
  EXPECT_TRUE(a.scaling.empty());
  EXPECT_THAT(headline(a) + finding_text(a), Not(::testing::ContainsRegex("faster|slower|tokens/s|[0-9]x")));
}

// As nccl-tests defines them: 4 ranks, 10 all-reduces of 1 MB in a step.
TEST(Collectives, BandwidthsAndTheTimeOfACall) {
  Row row;
  row.collectives = {
      {.name = "all_reduce", .group = "ranks", .ranks = 4, .calls = 10, .bytes = 10e6, .sent_bytes = 15e6}};
  const auto value = [&](const char* column) { return quantity_of_grid(column)->value(Analysis{}, row); };
  EXPECT_EQ(value("bus_bandwidth"), std::nullopt);
  row.exposed_seconds = 0.01;
  EXPECT_DOUBLE_EQ(value("algorithm_bandwidth").value(), 1e9);
  EXPECT_DOUBLE_EQ(value("bus_bandwidth").value(), 1.5e9);
  EXPECT_DOUBLE_EQ(value("collective_time").value(), 1e-3);
  // The receive of a send adds no bytes.
  row.collectives = {{.name = "receive", .calls = 10, .bytes = 10e6, .sent_bytes = 0},
                     {.name = "send", .calls = 10, .bytes = 10e6, .sent_bytes = 10e6}};
  EXPECT_DOUBLE_EQ(value("bus_bandwidth").value(), 1e9);
  EXPECT_DOUBLE_EQ(value("collective_time").value(), 1e-3);
}

TEST(Scaling, SeriesAreNamedByTheirConstantPart) {
  const Analysis a = analysis_of(test::scaling());
  ASSERT_EQ(a.scaling.size(), 3U);
  EXPECT_THAT(rungs_of(a, series(a, "spread, weak scaling")),
              ElementsAre("FlashAttention", "2 ranks", "4 ranks"));
  EXPECT_THAT(rungs_of(a, series(a, "spread, strong scaling")),
              ElementsAre("FlashAttention", "2 ranks, strong", "4 ranks, strong"));
  EXPECT_THAT(rungs_of(a, series(a, "shard, weak scaling")),
              ElementsAre("FlashAttention", "sharded, 2 ranks"))
      << "the failed run is left out";
}

TEST(Scaling, EfficiencyIsSpeedupOverRanks) {
  const Analysis a = analysis_of(test::scaling());
  const ScalingSeries& weak = series(a, "spread, weak scaling");
  EXPECT_FALSE(weak.points.front().speedup);
  EXPECT_EQ(weak.points.front().efficiency, 1);
  EXPECT_NEAR(weak.largest().speedup->value, 3.5, 0.03);
  EXPECT_NEAR(weak.largest().efficiency, 3.5 / 4, 0.01);
  EXPECT_EQ(weak.largest().speedup->rounds, 3U);
  EXPECT_TRUE(weak.largest().speedup->interval);
  EXPECT_EQ(weak.largest().global_batch, 16);
  EXPECT_EQ(series(a, "spread, strong scaling").largest().global_batch, 4);
}

/// One rank, and two ranks on the same two cores. The peak was measured on both cores.
Analysis on_two_cores(int64_t threads_of_one, int64_t threads_of_two) {
  test::SyntheticReport report("cores", 3);
  report.ladder({ranks(2, 4)});
  report.context["threads"] = 2;
  report.context["cpu"]["cores"] = 2;
  report["base"].threads = threads_of_one;
  report["2 x 4"].threads = threads_of_two;
  report["base"].tokens_per_second = report["2 x 4"].tokens_per_second = 900;
  return analysis_of(report);
}

TEST(Scaling, RanksThatShareACpuAreNoMoreHardware) {
  const double whole = 900 * 1e9 / 1e13;  // MFU of both cores
  for (const int64_t threads : {1, 2}) {
    const Analysis a = on_two_cores(2, threads);
    EXPECT_EQ(a.scaling.at(0).largest().growth, 1) << "both runs have the same two cores";
    EXPECT_NEAR(a.scaling[0].largest().efficiency, 1, 0.01);
    EXPECT_NEAR(row(a, "base").mfu.value(), whole, 1e-3);
    EXPECT_NEAR(row(a, "2 x 4").mfu.value(), whole, 1e-3);
  }
  const Analysis from_one = on_two_cores(1, 1);
  EXPECT_NEAR(row(from_one, "base").mfu.value(), 2 * whole, 1e-3);
  EXPECT_EQ(from_one.scaling.at(0).largest().growth, 2);
  EXPECT_NEAR(from_one.scaling[0].largest().efficiency, 0.5, 0.01);
}

TEST(HardwareUsed, CountsGpusOrThreadsWithCores) {
  const Json context = {{"threads", 4}, {"cpu", {{"cores", 8}}}};
  RunResult result;
  EXPECT_EQ(hardware_used(context, result, 3), 3) << "the result has no number of threads";
  result.threads = 4;
  EXPECT_EQ(hardware_used(context, result, 1), 1);
  EXPECT_EQ(hardware_used(context, result, 2), 2);
  EXPECT_EQ(hardware_used(context, result, 4), 2) << "4 x 4 threads on eight cores";
  result.ranks = {{.rank = 0, .host = "one"}, {.rank = 1, .host = "two"}};
  EXPECT_EQ(hardware_used(context, result, 4), 4) << "each host has eight cores";
  result.threads = 1;
  EXPECT_EQ(hardware_used(context, result, 2), 0.5);
  EXPECT_EQ(hardware_used({{"threads", 4}}, result, 2), 0.5) << "the number of cores is unknown";
  result.on_gpu = true;
  EXPECT_EQ(hardware_used(context, result, 4), 4);
}

TEST(Scaling, AnotherChangeEndsASeries) {
  test::SyntheticReport report("changed", 3);
  report.ladder({ranks(2, 4), rung("FlashAttention", "flash_attention"), ranks(4, 4)});
  const Analysis a = analysis_of(report);
  ASSERT_EQ(a.scaling.size(), 2U);
  EXPECT_THAT(rungs_of(a, a.scaling[0]), ElementsAre("base", "2 x 4"));
  EXPECT_THAT(rungs_of(a, a.scaling[1]), ElementsAre("FlashAttention", "4 x 4"));
}

TEST(Scaling, StartsAtTheFewestRanksThatRan) {
  test::SyntheticReport report("larger", 3);
  report.experiment.base.train.world_size = 2;
  report.ladder({ranks(4, 4), ranks(8, 4)});
  report["4 x 4"].tokens_per_second = 1500;
  const Analysis a = analysis_of(report);
  ASSERT_EQ(a.scaling.size(), 1U);
  EXPECT_NEAR(a.scaling[0].points[1].efficiency, 0.75, 0.01) << "1.5 times the speed on twice the ranks";
}

TEST(Scaling, SeriesOfOnePluginAreNamedByTheOptionsThatDiffer) {
  test::SyntheticReport report("stages", 3);
  std::vector<Rung> rungs;
  for (const int64_t stage : {2, 3}) {
    Rung made = ranks(2, 4);
    made.name = "stage " + std::to_string(stage);
    made.plugins = {{"shard", {{"stage", stage}, {"limit", 4}}}};
    if (stage == 3) made.over = "start";
    rungs.push_back(made);
  }
  rungs.insert(rungs.begin(), rung("start", "flash_attention"));
  report.ladder(rungs);
  const Analysis a = analysis_of(report);
  ASSERT_EQ(a.scaling.size(), 2U);
  EXPECT_EQ(a.scaling[0].title(), "shard (stage 2), weak scaling");
  EXPECT_EQ(a.scaling[1].title(), "shard (stage 3), weak scaling");
}

TEST(Scaling, SingleRankHasNoScaling) {
  test::SyntheticReport report("one", 3);
  report.ladder({setting("batch", {{"train", {{"micro_batch", 8}}}})});
  const Analysis a = analysis_of(report);
  EXPECT_TRUE(a.scaling.empty());
  EXPECT_FALSE(scaling_section(a).table);
  EXPECT_TRUE(rank_section(a).table->rows.empty() && collective_section(a).table->rows.empty());
}

TEST(Scaling, FindingNamesExposedCommunication) {
  const Analysis a = analysis_of(test::scaling());
  EXPECT_THAT(finding_text(a), HasSubstr("88 % efficient"));
  EXPECT_THAT(finding_text(a), HasSubstr("exposed communication takes 45 % of the step"));
  EXPECT_THAT(finding_text(a), ContainsRegex("FlashAttention \\([^(]*\\) makes training faster"))
      << "a speedup from more devices is not a gain";
}

TEST(Scaling, TwoRoundsMakeNoClaim) {
  auto report = test::scaling();
  report.experiment.rounds = 2;
  const Analysis a = analysis_of(report);
  EXPECT_FALSE(series(a, "spread, weak scaling").largest().speedup->interval);
  EXPECT_THAT(finding_text(a), Not(HasSubstr("efficient")));
}

TEST(Ranks, AnEqualGlobalBatchIsTheSameProblem) {
  const Analysis a = analysis_of(test::scaling());
  EXPECT_EQ(row(a, "4 ranks, strong").base.differs, "");
  EXPECT_EQ(row(a, "4 ranks").base.differs, "16 instead of 4 sequences per step");
  EXPECT_EQ(row(a, "4 ranks").devices, 4);
  EXPECT_NEAR(*number_of(quantity("tokens_per_second_per_device"), a, row(a, "4 ranks")), 1050, 5);
  EXPECT_TRUE(row(a, "4 ranks").verdict.compared);
}

TEST(Ranks, ARowHasTheMemoryOfItsLargestRank) {
  const Analysis a = analysis_of(test::scaling());
  EXPECT_EQ(row(a, "4 ranks").memory.allocated, (1 << 30) + (3 << 20));
  EXPECT_EQ(row(a, "4 ranks").ranks.size(), 4U);
  EXPECT_EQ(row(a, "4 ranks").sent_bytes, 150 << 20);
  EXPECT_TRUE(row(a, "base").ranks.empty());
  EXPECT_FALSE(row(a, "base").sent_bytes || row(a, "base").exposed_seconds);
}

TEST(Ranks, AStragglerIsMarked) {
  const Section section = rank_section(analysis_of(test::scaling()));
  ASSERT_TRUE(section.table);
  std::vector<std::string> stragglers;
  for (const auto& line : section.table->rows)
    if (line.back() == "yes") stragglers.push_back(line[0] + ": " + line[2]);
  EXPECT_THAT(stragglers, ElementsAre("4 ranks: 3"));
  EXPECT_THAT(
      section.bullets,
      ElementsAre("4 ranks: rank 3 on b is busy 25 % longer than the median rank; the others wait for it."));
  auto even = test::scaling();
  even["4 ranks"].straggler = 1.05;
  EXPECT_TRUE(rank_section(analysis_of(even)).bullets.empty());
}

TEST(Ranks, ManyRanksShowOnlyTheExtremes) {
  test::SyntheticReport report("many", 3);
  report.ladder({ranks(32, 4)});
  report["32 x 4"].straggler = 1.5;
  const Analysis a = analysis_of(report);
  const Section section = rank_section(a);
  EXPECT_EQ(row(a, "32 x 4").ranks.size(), 32U);
  EXPECT_LE(section.table->rows.size(), 4U);
  EXPECT_EQ(section.table->rows.back()[2], "31") << "the straggler";
  EXPECT_THAT(section.bullets.back(), HasSubstr("of 32 ranks are shown"));
}

// Routers may send fewer rows than that, so the ratio may be below 1.
TEST(Ranks, MinimumOfExpertsIsSaidToAssumeEqualRows) {
  Analysis a;
  a.rows.resize(1);
  a.rows[0].collectives = {{.name = "all_to_all", .group = "cp", .ranks = 2, .theory_bytes = 10}};
  EXPECT_THAT(collective_section(a).paragraphs.front(), Not(HasSubstr("equally many rows")));
  a.rows[0].collectives.front().group = "ep";
  EXPECT_THAT(collective_section(a).paragraphs.front(), HasSubstr("equally many rows"));
}

TEST(Ranks, CollectivesAreShownBesideTheory) {
  const Section section = collective_section(analysis_of(test::scaling()));
  ASSERT_TRUE(section.table);
  EXPECT_THAT(section.table->rows[0], ElementsAre("2 ranks", "all_reduce", "dp", "2", "4", "100 MiB",
                                                  "100 MiB", "100 MiB", "1.000x"));
  EXPECT_EQ(section.table->rows[1].back(), "—") << "there is no formula for it";
}

TEST(Counters, TextStatesHowTheValuesOfRanksAreCombined) {
  Analysis a;
  Row& row = a.rows.emplace_back();
  row.counters = {{.plugin = "fsdp", .name = "gathers", .per_step = true, .over_ranks = "max", .value = 4}};
  EXPECT_THAT(counter_section(a).paragraphs.front(), Not(HasSubstr("ranks"))) << "one rank";
  row.devices = 2;
  EXPECT_THAT(counter_section(a).paragraphs.front(),
              HasSubstr("With several ranks, the table shows the largest value of all ranks."));
  row.counters.push_back({.plugin = "fsdp", .name = "sent", .over_ranks = "sum", .value = 1});
  EXPECT_THAT(
      counter_section(a).paragraphs.front(),
      HasSubstr("the sum of all ranks for fsdp: sent; the largest value of all ranks for fsdp: gathers "
                "per step."));
}

TEST(RunResult, SpeedMustBePositive) {
  for (const double speed : {0.0, -1.0})
    EXPECT_THROW(
        run_result_from_json(
            {{"schema_version", 1}, {"status", "ok"}, {"reason", ""}, {"tokens_per_second", speed}}, "here"),
        Error)
        << speed;
}

TEST(RunResult, TimeOfAStepMustNotBeNegative) {
  const auto read = [](double seconds) {
    const Json step = {
        {"step", 0},          {"timed", true},           {"loss", 5.5}, {"grad_norm", 1.5}, {"tokens", 4},
        {"seconds", seconds}, {"phases", Json::object()}};
    return run_result_from_json({{"schema_version", 1},
                                 {"status", "ok"},
                                 {"reason", ""},
                                 {"tokens_per_second", 1.0},
                                 {"steps", {step}}},
                                "here");
  };
  EXPECT_EQ(read(0).steps.size(), 1U);
  EXPECT_THROW(read(-1), Error);
}

TEST(RankResult, FieldsMayBeMissing) {
  const RunResult result =
      run_result_from_json({{"schema_version", 1},
                            {"status", "failed"},
                            {"reason", "rank 1: lost"},
                            {"cause", "peer"},
                            {"rank", 1},
                            {"ranks", {{{"rank", 0}}, {{"rank", 1}, {"busy_seconds", nullptr}}}},
                            {"collectives", {{{"name", "all_gather"}}}}},
                           "here");
  ASSERT_EQ(result.ranks.size(), 2U);
  EXPECT_FALSE(result.ranks[1].busy_seconds);
  EXPECT_EQ(result.collectives[0].name, "all_gather");
  const auto refused = [](const Json& ranks) {
    try {
      run_result_from_json({{"schema_version", 1}, {"status", "ok"}, {"reason", ""}, {"ranks", ranks}},
                           "here");
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("no error");
  };
  EXPECT_THAT(refused({{{"host", "a"}}}), HasSubstr("field 'rank' is missing"));
  EXPECT_THAT(refused({{{"rank", "first"}}}), HasSubstr("field 'rank' must be an integer"));
  EXPECT_THAT(refused({{{"rank", 0}, {"hots", "a"}}}), HasSubstr("'hots'"));
  EXPECT_THAT(refused("none"), HasSubstr("field 'ranks' must be a list"));
}
}  // namespace
}  // namespace optrush
