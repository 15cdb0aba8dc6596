// Plans of meshes: the meshes of some devices, refusals, schedules, the ranked plan and its table.
#include "mesh_plan/mesh_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "mesh_plan/tables.h"
#include "mesh_plan_fixture.h"
#include "optrush/error.h"

namespace optrush::mesh_plan {
namespace {
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(Meshes, EveryFactorizationOnce) {
  for (const int64_t devices : {1, 7, 12, 64, 96}) {
    std::set<std::tuple<int64_t, int64_t, int64_t, int64_t>> seen;
    for (const ParallelConfig& mix : meshes_of(devices)) {
      EXPECT_EQ(mix.devices(), devices);
      EXPECT_TRUE(seen.insert({mix.pp, mix.dp, mix.cp, mix.tp}).second) << mesh_text(mix);
    }
    size_t expected = 0;
    for (int64_t pp = 1; pp <= devices; ++pp)
      for (int64_t dp = 1; pp * dp <= devices; ++dp)
        for (int64_t cp = 1; pp * dp * cp <= devices; ++cp) expected += devices % (pp * dp * cp) == 0 ? 1 : 0;
    EXPECT_EQ(seen.size(), expected) << devices;
  }
}

TEST(Meshes, ExpertsAreDividedEvenly) {
  std::set<int64_t> sizes;
  for (const ParallelConfig& mix : meshes_of(12, 8)) {
    EXPECT_EQ(mix.devices(), 12);
    sizes.insert(mix.ep);
  }
  EXPECT_EQ(sizes, (std::set<int64_t>{1, 2, 4}));
}

TEST(Meshes, ShardsAreOverAllReplicasOrThoseOfANode) {
  const auto shardings = [](ParallelConfig mesh) {
    std::set<std::pair<int64_t, int64_t>> found;
    for (const ParallelConfig& mix : shardings_of(mesh, 8)) found.insert({mix.stage, mix.shard_ranks});
    return found;
  };
  using Found = std::set<std::pair<int64_t, int64_t>>;
  EXPECT_EQ(shardings({.pp = 4, .tp = 2}), (Found{{0, 1}}));
  EXPECT_EQ(shardings({.dp = 8}), (Found{{0, 1}, {1, 8}, {2, 8}, {3, 8}}));
  EXPECT_EQ(shardings({.dp = 8, .tp = 4}), (Found{{0, 1}, {1, 8}, {1, 2}, {2, 8}, {2, 2}, {3, 8}, {3, 2}}));
}

TEST(Refusals, HaveAReason) {
  const TrainingProblem problem = problem_of("llama-3.2-3b");  // 28 blocks, 24 heads, 8 key/value heads
  const auto why = [&](ParallelConfig mix) {
    mix.accumulation = std::max<int64_t>(1, problem.global_batch / mix.dp);
    return refusal(mix, problem);
  };
  EXPECT_THAT(why({.pp = 2, .dp = 4, .cp = 2, .tp = 8}), IsEmpty());
  EXPECT_THAT(why({.tp = 16}), HasSubstr("24 heads"));
  EXPECT_THAT(why({.tp = 3}), HasSubstr("8 key/value heads"));
  EXPECT_THAT(why({.pp = 32}), HasSubstr("28 blocks"));
  EXPECT_THAT(why({.dp = 128}), HasSubstr("64 sequences"));
  EXPECT_THAT(why({.cp = 5}), HasSubstr("8192 positions"));
  EXPECT_THAT(why({.ep = 2}), HasSubstr("0 experts"));
  const TrainingProblem mixture{.model = mixtral_8x7b(), .global_batch = 64};
  EXPECT_THAT(refusal({.dp = 4, .ep = 8, .accumulation = 2}, mixture), IsEmpty());
  EXPECT_THAT(refusal({.dp = 2, .tp = 2, .ep = 8, .accumulation = 4}, mixture), IsEmpty());
  EXPECT_THAT(refusal({.dp = 16, .ep = 8, .accumulation = 1}, mixture), HasSubstr("dp x ep does not divide"));
  TrainingProblem longer = problem;
  longer.seq_len = 24 * 1024;
  EXPECT_THAT(refusal({.tp = 24, .accumulation = 64}, longer), IsEmpty())
      << "three ranks share a key/value head";
  EXPECT_THAT(refusal({.dp = 4, .accumulation = 3}, problem), HasSubstr("do not add up"));
  EXPECT_THAT(refusal({.pp = 4, .dp = 32, .accumulation = 2, .chunks = 2}, problem),
              HasSubstr("interleaved"));
}

TEST(Schedules, EachIsValidAndTrainsTheWholeBatch) {
  const TrainingProblem problem = problem_of("llama-3.2-1b");
  const auto schedules = schedules_of({.pp = 4, .dp = 2, .stage = 1, .shard_ranks = 2}, problem);
  EXPECT_GT(schedules.size(), 10U);
  for (const ParallelConfig& mix : schedules) {
    EXPECT_THAT(refusal(mix, problem), IsEmpty());
    EXPECT_EQ(mix.dp * mix.micro_batch * mix.accumulation, 64);
  }
}

TEST(MeshPlan, ShowsFittingMeshesFastestFirst) {
  const MeshPlan plan = plan_mesh(problem_of("llama-3.1-8b"), hardware_preset("h100"), 8, PlanOrder::tokens);
  ASSERT_FALSE(plan.fitting.empty());
  for (size_t i = 0; i < plan.fitting.size(); ++i) {
    EXPECT_LE(plan.fitting[i].memory.total(), kUsableMemory * plan.hardware.memory);
    if (i > 0) {
      EXPECT_GE(plan.fitting[i - 1].cost.tokens_per_second, plan.fitting[i].cost.tokens_per_second);
    }
  }
  EXPECT_GT(plan.too_large, 0U) << "replicas of the 8B model do not fit";
  const MeshPlan least = plan_mesh(plan.problem, plan.hardware, 8, PlanOrder::memory);
  EXPECT_LE(least.fitting.front().memory.total(), plan.fitting.front().memory.total());
}

TEST(MeshPlan, NamesTheNeedOfTheSmallestMeshIfNoneFits) {
  const MeshPlan plan = plan_mesh(problem_of("llama-3.1-70b"), hardware_preset("h100"), 8, PlanOrder::tokens);
  EXPECT_THAT(plan.fitting, IsEmpty());
  ASSERT_TRUE(plan.smallest);
  EXPECT_GT(plan.smallest->memory.total(), 70.55e9 * 16 / 8);
  EXPECT_THAT(plan_text(plan, "70B", 5, TableForm::text), HasSubstr("the smallest needs"));
}

TEST(MeshTable, NamesEveryAssumption) {
  const MeshPlan plan = plan_mesh(problem_of("llama-3.2-1b"), hardware_preset("h200"), 2, PlanOrder::tokens);
  const std::string text = plan_text(plan, "1B", 1, TableForm::text);
  for (const char* part :
       {"1B (1,235,814,400 parameters) on 2 x h200", "not a measurement", "dp 2", "more configurations fit",
        "45 % of the data sheet", "reductions of tp are not overlapped"})
    EXPECT_THAT(text, HasSubstr(part));
  EXPECT_THAT(plan_text(plan, "1B", 1, TableForm::markdown), HasSubstr("| mesh | sharding |"));
  const Json json = plan_json(plan, "1B", 1);
  EXPECT_EQ(json.at("mixes").size(), 1U);
  EXPECT_EQ(json.at("mixes")[0].at("mix").at("dp"), 2);
}

TEST(MeshTable, AnMfuHasOneDecimal) {
  EXPECT_EQ(mfu_text(0.4567), "45.7 %");
  EXPECT_EQ(mfu_text(0), "—");
}

Hardware round_numbers() {
  Hardware hardware{.name = "boxes", .flops = 1e12, .memory = 4e9, .memory_bandwidth = 1e11, .per_node = 2};
  hardware.node = {10e9, 1e-6};
  hardware.network = {1e9, 1e-5};
  hardware.sources = {"round numbers"};
  return hardware;
}

TEST(MeshTable, IsStable) {
  TrainingProblem problem = problem_of("nano", 8);
  problem.seq_len = 64;
  const MeshPlan plan = plan_mesh(problem, round_numbers(), 4, PlanOrder::tokens);
  const std::string text = plan_text(plan, "nano", 2, TableForm::text);
  EXPECT_EQ(
      text.substr(0, text.find("Assumptions")),
      R"(nano (107,328 parameters) on 4 x boxes: 8 sequences of 64 tokens per step, bf16. A prediction, not a measurement.

mesh        sharding  micro-batches  chunks  recomputed    memory  sent per device and step              bubble  exposed    step  tokens/s per device  MFU
pp 2, dp 2  stage 1   1 x 4               1  none        1.11 MiB  dp 181 KiB node, pp 96.0 KiB network    10 %     48 %  259 µs              494,577    —
pp 2, dp 2  stage 2   1 x 4               1  none        1.35 MiB  dp 544 KiB node, pp 96.0 KiB network    10 %     48 %  259 µs              494,577    —

- 37 more configurations fit (--top)
- 1 mesh impossible: pp has more parts than the 2 blocks

)");
}

TEST(Published, EveryMixIsValidAndNamesItsSource) {
  for (const PublishedRun& run : published_runs()) {
    EXPECT_THAT(run.source, HasSubstr(".md"));
    EXPECT_GT(run.tokens_per_second, 0);
    const std::string why = run.has_config() ? refusal(run.mix, run.problem) : "";
    EXPECT_THAT(why, IsEmpty()) << run.source << " " << run.devices;
  }
}

TEST(Presets, Fp8IsTwiceAsFastIfSupported) {
  for (const char* name : {"h100", "h200"}) {
    const Hardware hopper = hardware_preset(name);
    EXPECT_NEAR(hopper.fp8_flops / hopper.flops, 2, 2e-3) << name;
  }
  EXPECT_EQ(hardware_preset("a100").fp8_flops, 0);
}

TEST(Presets, AnUnknownHardwareNamesTheNearest) {
  try {
    hardware_preset("h20");
    FAIL();
  } catch (const UsageError& e) {
    EXPECT_THAT(e.what(), HasSubstr("did you mean"));
  }
}

TEST(Presets, HaveTheNamesOfPlannedGpus) {
  EXPECT_EQ(hardware_preset("h100-80").name, "h100");
  EXPECT_LT(hardware_preset("A100-40").memory, hardware_preset("a100-80").memory);
}
}  // namespace
}  // namespace optrush::mesh_plan
