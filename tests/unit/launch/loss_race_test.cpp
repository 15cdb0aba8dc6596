// Which runs of a round end at a target loss, and which are too far behind.
#include "launch/runs.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/temporary_folder.h"

namespace optrush {
namespace {
class LossRaceTest : public ::testing::Test {
 protected:
  static Experiment to_three(double behind) {
    Experiment experiment;
    experiment.target_loss = 3;
    experiment.stop_behind = behind;
    return experiment;
  }
  static Job job(const std::string& id, int64_t validates = 5) {
    Job job{.id = id};
    job.spec.validate.every = validates;
    return job;
  }
  void step(const Job& job, double seconds, double loss = 9) {
    write(job, {{"event", "step"}, {"seconds", seconds}, {"loss", loss}});
  }
  void validation(const Job& job, double loss) { write(job, {{"event", "validation"}, {"loss", loss}}); }
  bool is_over(const Job& job) { return race_.is_over(job, folder_ / job.id); }

  const TemporaryFolder folder_;
  LossRace race_{to_three(1.5)};

 private:
  void write(const Job& job, const Json& line) {
    std::ofstream(folder_ / job.id, std::ios::app) << line.dump() << "\n";
  }
};

TEST_F(LossRaceTest, ARunEndsAtTheLossAndTheOthersOnceTheyAreBehind) {
  const Job first = job("first"), second = job("second");
  step(first, 10, 1);
  EXPECT_FALSE(is_over(first)) << "a training loss does not count beside validation";
  step(second, 14);
  validation(second, 3.5);
  EXPECT_FALSE(is_over(second)) << "no run has reached the loss";
  validation(first, 3.0);
  EXPECT_TRUE(is_over(first));
  EXPECT_FALSE(is_over(second)) << "14 s are less than 1.5 times 10 s";
  step(second, 1.5);
  EXPECT_TRUE(is_over(second));
  race_.begin_round();
  EXPECT_FALSE(is_over(second)) << "another round has another first run";
}

TEST_F(LossRaceTest, AStoredRunCounts) {
  RunResult result;
  for (int64_t i = 0; i < 4; ++i) {
    StepResult step;
    step.step = i;
    step.seconds = 2;
    step.loss = 9;
    result.steps.push_back(step);
  }
  result.validation = {{2, 2.9}, {4, 2.8}};
  race_.ended(job("stored"), result);
  const Job other = job("other");
  step(other, 6);
  EXPECT_FALSE(is_over(other)) << "the stored run reached the loss after 4 s";
  step(other, 0.1);
  EXPECT_TRUE(is_over(other));
}

TEST_F(LossRaceTest, WithoutValidationTheMeanOfTenLossesCounts) {
  const Job plain = job("plain", 0);
  for (int i = 0; i < 9; ++i) step(plain, 1, 2);
  EXPECT_FALSE(is_over(plain));
  step(plain, 1, 12);
  EXPECT_TRUE(is_over(plain)) << "the mean is 3";
}

TEST_F(LossRaceTest, ItIsOffWithoutALead) {
  LossRace off(to_three(0));
  EXPECT_FALSE(off.on());
  const Job one = job("one");
  validation(one, 1);
  EXPECT_FALSE(off.is_over(one, folder_ / one.id));
}
}  // namespace
}  // namespace optrush
