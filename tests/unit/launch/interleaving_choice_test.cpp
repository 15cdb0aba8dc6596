// The choice of runs to interleave, the order of their starts and turns, and the steps of a turn.
#include <gmock/gmock.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "launch/interleaving/interleaved_round.h"
#include "launch/ledger/next.h"
#include "spec/spec_json.h"

namespace optrush {
namespace {
using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(StartOrder, FirstRoundFollowsTheScriptAndLaterRoundsDiffer) {
  const auto first = start_order(6, 0);
  EXPECT_TRUE(std::ranges::is_sorted(first));
  for (int64_t round = 0; round < 12; round += 2) {
    auto back = start_order(6, round + 1);
    std::ranges::reverse(back);
    EXPECT_EQ(back, start_order(6, round)) << "the next round has the reverse order";
  }
  std::set<std::vector<size_t>> orders;
  std::vector<double> places(6, 0);
  for (int64_t round = 0; round < 60; ++round) {
    auto order = start_order(6, round);
    EXPECT_EQ(order, start_order(6, round));
    orders.insert(order);
    for (size_t place = 0; place < 6; ++place) places[order[place]] += static_cast<double>(place) / 60;
    std::ranges::sort(order);
    EXPECT_EQ(order, first);
  }
  EXPECT_GT(orders.size(), 50U);
  for (const double place : places) EXPECT_NEAR(place, 2.5, 1e-9) << "the mean place is the middle";
}

TEST(TurnOrder, EachCycleStartsOnePlaceLater) {
  EXPECT_THAT(turn_order(3, 0), ElementsAre(0, 1, 2));
  EXPECT_THAT(turn_order(3, 1), ElementsAre(1, 2, 0));
  EXPECT_THAT(turn_order(3, 5), ElementsAre(2, 0, 1));
  EXPECT_THAT(turn_order(1, 7), ElementsAre(0));
}

TEST(StepsOfATurn, LastAQuarterOfASecondAndLeaveFourTurns) {
  EXPECT_EQ(steps_of_a_turn({1.0, 2.0}, 10), 1);
  EXPECT_EQ(steps_of_a_turn({1.0, 0.1}, 100), 3) << "the fastest run decides";
  EXPECT_EQ(steps_of_a_turn({0.001}, 20), 5) << "at least four turns";
  EXPECT_EQ(steps_of_a_turn({0.001}, 6), 2) << "the first turn is not timed";
  EXPECT_EQ(steps_of_a_turn({0.001}, 4), 2);
  EXPECT_EQ(steps_of_a_turn({0.001}, 3), 1);
  EXPECT_EQ(steps_of_a_turn({0.2, 0.3}, 6), 2);
  EXPECT_EQ(steps_of_a_turn({0.3}, 6), 1) << "cold caches do not matter in long steps";
  EXPECT_EQ(steps_of_a_turn({0, 0}, 20), 1) << "unknown step time";
  EXPECT_EQ(steps_of_a_turn({1e-300}, 1 << 20), 1 << 18);
}

class Choice : public ::testing::Test {
 protected:
  static Plan plan(double peak, const std::string& device = "cpu") {
    Plan plan;
    plan.memory = PlannedMemory{.peak = peak, .least = peak, .available = 10e9, .device = device};
    return plan;
  }
  std::vector<std::string> chosen(const Plans& plans, Interleave setting = Interleave::automatic,
                                  bool launched = false) const {
    std::vector<Job> jobs;
    for (size_t i = 0; i < plans.size(); ++i) {
      Job job{.id = std::to_string(i), .spec = {}};
      job.spec.variant = static_cast<int64_t>(i);
      if (i == several_) job.spec.train.world_size = 2;
      if (i == saves_) job.spec.save.every = 10;
      if (i == external_) job.external = External{.interleave = speaks_};
      jobs.push_back(job);
    }
    std::vector<std::string> ids;
    for (const auto& job : chosen_for_interleaving(jobs, plans, measured_, free_, setting, launched))
      ids.push_back(job.id);
    return ids;
  }
  MeasuredMemory measured_;
  double free_ = 0;
  size_t several_ = 99, external_ = 99, saves_ = 99;
  bool speaks_ = false;
};

TEST_F(Choice, RunsThatFitTogetherAreChosen) {
  EXPECT_THAT(chosen({plan(1e9), plan(1e9), plan(2e9)}), ElementsAre("0", "1", "2"));
  EXPECT_THAT(chosen({plan(2e9), plan(6e9), plan(2e9)}), ElementsAre("0", "2"))
      << "a run that does not fit is left out";
  EXPECT_THAT(chosen({plan(7e9), plan(2e9)}), IsEmpty()) << "one run is not interleaved";
  EXPECT_THAT(chosen({plan(1e9), plan(1e9), Plan{}}), ElementsAre("0", "1")) << "not predicted";
  EXPECT_THAT(chosen({plan(1, "cuda"), plan(1, "cuda")}), IsEmpty());
}

TEST_F(Choice, ScriptOverridesTheChoice) {
  EXPECT_THAT(chosen({plan(1), plan(1)}, Interleave::off), IsEmpty());
  EXPECT_THAT(chosen({plan(9e9, "cuda"), plan(9e9), Plan{}}, Interleave::on), ElementsAre("0", "1", "2"));
}

TEST_F(Choice, EachRankCounts) {
  several_ = 1;
  EXPECT_THAT(chosen({plan(1e9), plan(3e9)}), IsEmpty()) << "1.5 + 2 * 3.5 is more than 8";
  EXPECT_THAT(chosen({plan(1e9), plan(2e9)}), ElementsAre("0", "1"));
  EXPECT_THAT(chosen({plan(1e9), plan(2e9)}, Interleave::on, /*launched=*/true), IsEmpty())
      << "other ranks may be on other hosts";
}

TEST_F(Choice, RunsThatSaveStatesAreChosenOnlyOnRequest) {
  saves_ = 1;
  EXPECT_THAT(chosen({plan(1), plan(1), plan(1)}), ElementsAre("0", "2"));
  EXPECT_THAT(chosen({plan(1), plan(1), plan(1)}, Interleave::on), ElementsAre("0", "1", "2"));
}

TEST_F(Choice, ExternalProgramsMustDeclareSupport) {
  external_ = 1;
  measured_ = {{1, 1e9}};
  EXPECT_THAT(chosen({plan(1), plan(1), plan(1)}), ElementsAre("0", "2"));
  speaks_ = true;
  EXPECT_THAT(chosen({plan(1), plan(1), plan(1)}), ElementsAre("0", "1", "2"));
  measured_.clear();
  EXPECT_THAT(chosen({plan(1), plan(1), plan(1)}), ElementsAre("0", "2"))
      << "its plan predicts the host's step, not the program's";
  EXPECT_THAT(chosen({plan(1), plan(1), plan(1)}, Interleave::on), ElementsAre("0", "1", "2"));
}

TEST_F(Choice, UnpredictedRunsAreMeasuredFirst) {
  const Plan unpredicted;
  EXPECT_THAT(chosen({plan(1e9), plan(1e9), unpredicted}), ElementsAre("0", "1"));
  measured_ = {{2, 2e9}};
  EXPECT_THAT(chosen({plan(1e9), plan(1e9), unpredicted}), ElementsAre("0", "1", "2"));
  measured_ = {{2, 5e9}};
  EXPECT_THAT(chosen({plan(1e9), plan(1e9), unpredicted}), ElementsAre("0", "1")) << "1.5 + 1.5 + 5.5 > 8";
  several_ = 2;
  measured_ = {{2, 2.1e9}};
  EXPECT_THAT(chosen({plan(1e9), plan(1e9), unpredicted}), ElementsAre("0", "1")) << "it has two processes";
  measured_ = {{0, 1e9}, {1, 1e9}, {2, 1e9}};
  several_ = 99;
  EXPECT_THAT(chosen({unpredicted, unpredicted, unpredicted}), IsEmpty()) << "no free memory is known";
  free_ = 4e9;
  EXPECT_THAT(chosen({unpredicted, unpredicted, unpredicted}), ElementsAre("0", "1"))
      << "3 * 1.5 is more than 3.2";
  EXPECT_THAT(chosen({plan(1, "cuda"), unpredicted, unpredicted}), IsEmpty())
      << "the memory of a GPU does not count";
}

TEST_F(Choice, PeaksComeFromGoodMeasurementsOnACpu) {
  const auto noted = [](const RunResult& result, Purpose purpose = Purpose::measure) {
    MeasuredMemory measured{{3, 2e9}};
    Job job{.id = "x", .spec = {}};
    job.spec.variant = 3;
    job.spec.purpose = purpose;
    note_peak(job, result, measured);
    return measured.at(3);
  };
  const auto result = [](Status status, const std::string& device, std::optional<double> process) {
    RunResult result({status, ""});
    result.on_gpu = device == "cuda";
    result.memory.process = process;
    return result;
  };
  EXPECT_EQ(noted(result(Status::ok, "cpu", 3e9)), 3e9);
  EXPECT_EQ(noted(result(Status::ok, "cpu", 1e9)), 2e9) << "the highest of all rounds";
  EXPECT_EQ(noted(result(Status::ok, "cuda", 3e9)), 2e9) << "the memory of a GPU does not count";
  EXPECT_EQ(noted(result(Status::crashed, "cpu", 3e9)), 2e9);
  EXPECT_EQ(noted(result(Status::ok, "cpu", std::nullopt)), 2e9);
  EXPECT_EQ(noted(result(Status::ok, "cpu", 3e9), Purpose::probe), 2e9);
  const Json program = {
      {"schema_version", 1}, {"status", "ok"}, {"reason", ""}, {"memory", {{"process", 3e9}}}};
  EXPECT_EQ(noted(run_result_from_json(program, "a program")), 3e9)
      << "an external program need not name a device";
}
}  // namespace
}  // namespace optrush
