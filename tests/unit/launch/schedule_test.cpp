#include "launch/schedule/schedule.h"

#include <gmock/gmock.h>

#include "../../support/error_of.h"
#include "results/journal.h"
#include "spec/run_identity.h"
#include "spec/spec_json.h"

namespace optrush {
namespace {
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class ScheduleTest : public ::testing::Test {
 protected:
  static Experiment experiment() {
    Experiment e;
    e.name = "x";
    e.base = merged(RunSpec{}, Json::object(), "test");
    e.parts.push_back(
        {.rungs = {{.name = "wider", .settings = {{"train", {{"micro_batch", 8}}}}}, {.name = "same"}}});
    return e;
  }
  static Experiment rounds(int64_t number, Interleave interleave = Interleave::automatic) {
    Experiment e = experiment();
    e.rounds = number;
    e.interleave = interleave;
    return e;
  }
  Plans plans() const {
    Plans plans;
    for (const auto& variant : variants_) {
      plans.push_back(Plan{.problem = variant.spec.train, .model = variant.spec.model});
      plans.back()->problem.global_batch = variant.spec.train.micro_batch;
    }
    return plans;
  }
  static std::vector<std::string> ids(const std::vector<Job>& jobs) {
    std::vector<std::string> ids;
    for (const auto& job : jobs) ids.push_back(job.id);
    return ids;
  }

  const std::vector<Variant> variants_ = expand(experiment());
};

TEST_F(ScheduleTest, GateRunsFollowTheFirstRoundAndTheDriftRunIsLast) {
  EXPECT_THAT(ids(Schedule(variants_, rounds(2), {}).all(plans())),
              ElementsAre("00-base-r1", "01-wider-r1", "02-same-r1", "01-wider-reference", "00-base-r2",
                          "01-wider-r2", "02-same-r2", "00-base-drift"));
}

TEST_F(ScheduleTest, BaseRunsAgainOnlyIfItsSpeedIsCompared) {
  EXPECT_THAT(ids(Schedule(variants_, rounds(1), {"base"}).all(plans())), ElementsAre("00-base-r1"))
      << "alone";
  auto failed = plans();
  failed[1].reset();
  failed[2].reset();
  EXPECT_THAT(ids(Schedule(variants_, rounds(1), {}).all(failed)), ElementsAre("00-base-r1"));
  auto training = experiment();
  training.base.save.every = 10;
  const auto variants = expand(training);
  EXPECT_THAT(ids(Schedule(variants, rounds(1), {}).all(plans())), Not(Contains("00-base-drift")))
      << "a drift run would take as long as the training";
}

TEST_F(ScheduleTest, BaseDoesNotRunAgainIfEveryRunIsInterleaved) {
  EXPECT_THAT(ids(Schedule(variants_, rounds(1, Interleave::on), {}).all(plans())),
              Not(Contains("00-base-drift")));
  for (const auto interleave : {Interleave::automatic, Interleave::off})
    EXPECT_THAT(ids(Schedule(variants_, rounds(1, interleave), {}).all(plans())), Contains("00-base-drift"));
  auto variants = variants_;
  variants[2].external = External{.command = {"train"}};
  EXPECT_THAT(ids(Schedule(variants, rounds(1, Interleave::on), {}).all(plans())), Contains("00-base-drift"))
      << "a program that does not know it runs alone";
}

TEST_F(ScheduleTest, VariantWithoutAPlanIsNotScheduled) {
  auto plans = this->plans();
  plans[1].reset();
  plans[0].reset();
  EXPECT_THAT(ids(Schedule(variants_, rounds(1), {}).all(plans)), ElementsAre("02-same-r1"));
}

TEST_F(ScheduleTest, OnlyKeepsTheBase) {
  const Schedule schedule(variants_, rounds(1), {"same"});
  EXPECT_THAT(ids(schedule.round(0, plans())), ElementsAre("00-base-r1", "02-same-r1"));
  EXPECT_THAT(testing::error_of([&] { Schedule(variants_, rounds(1), {"wdier"}); }),
              HasSubstr("did you mean 'wider'?"));
}

TEST_F(ScheduleTest, OnlyAcceptsPatterns) {
  const Schedule schedule(variants_, rounds(1), {"*e", "wid[de]r"});
  EXPECT_THAT(schedule.only(), ElementsAre("base", "same", "wider"));
  EXPECT_THAT(ids(schedule.round(0, plans())), ElementsAre("00-base-r1", "01-wider-r1", "02-same-r1"));
  EXPECT_THAT(testing::error_of([&] {
                Schedule(variants_, rounds(1), {"same", "x*"});
              }),
              HasSubstr("no rung 'x*'"));
  auto starred = experiment();
  starred.parts[0].rungs[0].name = "s*";
  const auto variants = expand(starred);
  EXPECT_THAT(Schedule(variants, rounds(1), {"s*"}).only(), ElementsAre("s*"))
      << "a name is not read as a pattern";
}

TEST_F(ScheduleTest, SpecsDescribeTheirPlaceInTheSchedule) {
  const Schedule schedule(variants_, rounds(3), {});
  const auto jobs = schedule.all(plans());
  EXPECT_EQ(schedule.describe(jobs.front().spec), "round 1/3");
  EXPECT_EQ(schedule.describe(jobs[3].spec), "gate reference");
  EXPECT_EQ(schedule.describe(jobs.back().spec), "drift");
  EXPECT_EQ(jobs.back().spec.round, 3) << "with more rounds the drift run comes later";
}

TEST_F(ScheduleTest, EverySpecHasItsOwnHash) {
  std::vector<std::string> hashes;
  for (const auto& job : Schedule(variants_, rounds(3), {}).all(plans()))
    hashes.push_back(spec_sha256(job.spec));
  std::ranges::sort(hashes);
  EXPECT_EQ(std::ranges::adjacent_find(hashes), hashes.end());
}
TEST_F(ScheduleTest, ARoundHasItsSeedInAllVariantsAndTheGateHasTheFirst) {
  const std::vector<int64_t> seeds = {1, 9, 4};
  Experiment seeded = rounds(3);
  seeded.seeds = seeds;
  const Schedule schedule(variants_, seeded, {});
  for (const Job& job : schedule.all(plans())) {
    const bool measured = job.spec.purpose == Purpose::measure;
    EXPECT_EQ(job.spec.train.seed, measured ? seeds[static_cast<size_t>(job.spec.round)] : 1) << job.id;
  }
  EXPECT_EQ(schedule.describe(schedule.measured(variants_[1], 2).spec), "round 3/3, seed 4");
}
}  // namespace
}  // namespace optrush
