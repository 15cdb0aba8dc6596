// Copies of a parameter on several ranks stay equal, or the run fails. A plugin may keep a tensor of each
// rank.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/temporary_folder.h"
#include "exactness.h"
#include "support/error_of.h"

namespace optrush::testing {
namespace {
TEST(Replicas, DriftIsReportedByName) {
  const auto error = [](std::vector<PluginUse> plugins, int64_t validate_every) -> std::string {
    RunSpec spec = small_spec(3, std::move(plugins));
    if (validate_every > 0) spec.validate.every = validate_every;
    try {
      train_on(pool(), {.spec = spec, .drifts = {{"model.norm.weight", 1e-5}}, .save = "", .load = ""});
      return "";
    } catch (const std::exception& e) {
      return e.what();
    }
  };
  for (const int64_t every : {0, 5})
    EXPECT_THAT(error({{"ddp", Json::object()}}, every),
                ::testing::HasSubstr(
                    "the copies of 'model.norm.weight' differ: ranks 0, 2 and rank 1 have diverged"));
  EXPECT_EQ(error({{"fsdp", Json::object()}}, 0), "") << "with one copy there is nothing to compare";
}

/// Ranks that compute a gradient separately may round differently. A copy that is farther off fails the run,
/// also beside one that only rounds.
TEST(Replicas, TheFarthestCopyDecides) {
  const auto outcome_of = [](std::map<std::string, double> drifts) -> std::string {
    const RunSpec spec = small_spec(2, {{"tensor_parallel", {{"size", 2}}}});
    try {
      const auto trained =
          train_on(pool(), {.spec = spec, .drifts = std::move(drifts), .save = "", .load = ""});
      return trained.result.value("warnings", Json::array()).dump();
    } catch (const std::exception& e) {
      return e.what();
    }
  };
  const std::string first = "model.layers.0.input_layernorm.weight", last = "model.norm.weight";
  EXPECT_THAT(outcome_of({{first, 1e-7}}),
              ::testing::HasSubstr("the copies of '" + first + "' differ in their last bits"));
  for (const double far : {1.0, -1.0}) {
    EXPECT_THAT(outcome_of({{first, 1e-7}, {last, far}}),
                ::testing::HasSubstr("the copies of '" + last + "' differ:"));
    EXPECT_THAT(outcome_of({{first, far}, {last, 1e-7}}),
                ::testing::HasSubstr("the copies of '" + first + "' differ:"));
  }
}

TEST(Replicas, AreComparedInARunThatEndsEarly) {
  const auto error = [](std::map<std::string, double> drifts) {
    const RunSpec spec = small_spec(2, {{"ddp", Json::object()}});
    return error_of([&] {
      const auto trained = train_on(
          pool(), {.spec = spec, .drifts = std::move(drifts), .ends_after = 3, .save = "", .load = ""});
      EXPECT_EQ(trained.losses.size(), 2U + 3U);
    });
  };
  EXPECT_EQ(error({}), "");
  EXPECT_THAT(error({{"model.norm.weight", 1e-5}}),
              ::testing::HasSubstr("the copies of 'model.norm.weight' differ"));
}

TEST(KeptPerRank, ARunContinuesBitEqualOnItsMesh) {
  const TemporaryFolder folder;
  const auto run = [&](int64_t ranks, int64_t steps, const std::string& save, const std::string& load,
                       const char* keeps = "per_rank") {
    RunSpec spec = small_spec(ranks, {{"ddp", Json::object()}});
    spec.train.warmup = 1;
    spec.train.steps = steps - 1;
    return train_on(pool(), {.spec = spec, .keeps = keeps, .save = save, .load = load});
  };
  const TrainedRanks whole = run(2, 6, "", "");
  run(2, 3, folder / "state", "");
  const TrainedRanks rest = run(2, 3, "", folder / "state");
  EXPECT_EQ(rest.losses, (std::vector<double>{whole.losses.begin() + 3, whole.losses.end()}));
  EXPECT_EQ(rest.norms, (std::vector<double>{whole.norms.begin() + 3, whole.norms.end()}));
  EXPECT_THAT(
      error_of([&] { run(3, 3, "", folder / "state"); }),
      ::testing::HasSubstr("the saved 'test/mean' has a tensor for each rank of another mesh: dp=2 there, "
                           "dp=3 here"));
  EXPECT_THAT(error_of([&] { run(1, 3, "", folder / "state"); }), ::testing::HasSubstr("one rank here"));
  EXPECT_THAT(error_of([&] { run(2, 3, "", "", "shared"); }),
              ::testing::HasSubstr("the kept tensor 'test/mean' differs between rank 0 and rank 1"));
}
}  // namespace
}  // namespace optrush::testing
