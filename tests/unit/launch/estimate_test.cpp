#include "launch/schedule/schedule.h"

#include "fixture.h"

namespace optrush {
namespace {
using Estimate = testing::Launch;

std::vector<Job> jobs_of(const Experiment& experiment) {
  const auto variants = expand(experiment);
  std::vector<Job> jobs;
  for (int64_t round = 0; round < experiment.rounds; ++round)
    for (const auto& variant : variants)
      jobs.push_back(Schedule(variants, experiment, {}).measured(variant, round));
  return jobs;
}

TEST_F(Estimate, CountsRunsOfTheSameSpec) {
  auto e = experiment({"a", "failed"});
  e.parts[0].rungs[0].settings = {{"train", {{"lr", 0.5}}}};
  e.parts[0].rungs[1].settings = {{"train", {{"lr", 0.1}}}};
  run(e);
  const Stored stored = load_report(report());
  const auto seconds_of = [&](const std::string& id, double steps) {
    const Json result = this->result(id);
    return result.value("setup_seconds", 0.0) + result.value("compile_seconds", 0.0) +
           result.at("step_seconds").get<double>() * steps;
  };
  e.rounds = 3;
  const TimeEstimate again = estimate_time(jobs_of(e), stored);
  EXPECT_EQ(again.all, 9U);
  EXPECT_EQ(again.known, 6U) << "the failed rung has no estimate";
  // The base ran twice, so its estimate is the median of both runs.
  const double base = (seconds_of("00-base-r1", 13) + seconds_of("00-base-drift", 13)) / 2;
  EXPECT_NEAR(again.seconds, 3 * (base + seconds_of("01-a-r1", 13)), 1e-9);

  auto longer = experiment({"renamed"});
  longer.base.train.steps = 97;
  longer.parts[0].rungs[0].settings = {{"train", {{"lr", 0.5}}}};
  EXPECT_NEAR(
      estimate_time(jobs_of(longer), stored).seconds,
      (seconds_of("00-base-r1", 100) + seconds_of("00-base-drift", 100)) / 2 + seconds_of("01-a-r1", 100),
      1e-9)
      << "other steps and names";
  longer.base.train.seq_len *= 2;
  EXPECT_EQ(estimate_time(jobs_of(longer), stored).known, 0U);
}
}  // namespace
}  // namespace optrush
