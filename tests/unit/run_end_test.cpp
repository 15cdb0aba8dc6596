// The number of steps of a run, its data, and the state that it keeps at its end.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/files.h"
#include "base/temporary_folder.h"
#include "io/state_folder.h"
#include "support/error_of.h"
#include "support/training.h"
#include "train/run_end.h"
#include "train/state.h"

namespace optrush::testing {
namespace {
TEST(Overfit, EveryStepTrainsOnTheFirstBatch) {
  RunSpec spec = nano_spec();
  spec.train.steps = 4;
  const RunSpec usual = spec;
  spec.train.overfit = 0.1;
  Trained trained(spec), other(usual);
  const auto batches = [](Trained& run) {
    return Batches(run.session().spec(), run.session().model(), run.session().mesh(), at::kCPU);
  };
  const Batches same = batches(trained), moving = batches(other);
  const auto tokens = [](const Batches& all, int64_t step) { return all.step(step).front().tokens; };
  EXPECT_TRUE(at::equal(tokens(same, 0), tokens(moving, 0)));
  EXPECT_TRUE(at::equal(tokens(same, 5), tokens(moving, 0)));
  EXPECT_FALSE(at::equal(tokens(moving, 5), tokens(moving, 0)));
  const auto alone = losses(trained.train()), varied = losses(other.train());
  EXPECT_EQ(alone.front(), varied.front());
  EXPECT_NE(alone.back(), varied.back());
  for (size_t step = 1; step < alone.size(); ++step) EXPECT_LT(alone[step], alone[step - 1]);
}

TEST(Overfit, HasNoEpochs) {
  EXPECT_NE(error_of([] {
              fields_of<TrainSpec>().read({{"overfit", 0.1}, {"epochs", 2}}, "x.lua:3");
            }).find("epochs"),
            std::string::npos);
}

std::vector<ValidationPoint> validations(const std::vector<double>& losses) {
  std::vector<ValidationPoint> list;
  for (const double loss : losses) list.push_back({.step = 10 * (std::ssize(list) + 1), .loss = loss});
  return list;
}

TEST(RunEnd, FollowsFromTheValidations) {
  RunSpec spec = nano_spec();
  spec.validate.every = 10;
  spec.validate.patience = 2;
  const RunEnd end(spec, 0, 4);
  EXPECT_EQ(RunEnd::best(validations({})), std::nullopt);
  EXPECT_EQ(RunEnd::best(validations({3, 1, 2, 1})), 1U) << "the first of equal losses";
  EXPECT_TRUE(RunEnd::improved(validations({3, 2})));
  EXPECT_FALSE(RunEnd::improved(validations({3, 3})));
  EXPECT_FALSE(end.is_over(validations({3, 1, 2})));
  EXPECT_TRUE(end.is_over(validations({3, 1, 2, 1})));
  spec.validate.patience = 0;
  EXPECT_FALSE(RunEnd(spec, 0, 4).is_over(validations({1, 2, 3, 4})));
}

TEST(RunEnd, EpochsAreWholeStepsWithinTheRequestedSteps) {
  RunSpec spec = nano_spec();
  spec.train.warmup = 3;
  spec.train.steps = 100;
  spec.train.epochs = 2;
  EXPECT_EQ(RunEnd(spec, 21, 4).steps(), 11) << "42 sequences in steps of 4";
  EXPECT_EQ(RunEnd(spec, 21, 4).why_shorter(11), "2 epochs were complete after 11 steps");
  EXPECT_EQ(RunEnd(spec, 2100, 4).steps(), 103);
  EXPECT_EQ(RunEnd(spec, 2100, 4).why_shorter(103), "");
  EXPECT_EQ(RunEnd(spec, 21, 4).why_shorter(10), "") << "something else ended it before";
  EXPECT_NE(error_of([&] { RunEnd(spec, 5, 4); }).find("2 epochs of 5 sequences gives 3 steps of 4"),
            std::string::npos);
}

/// Trains on repetitive text.
RunSpec text_spec(const TemporaryFolder& folder, const std::string& text, int64_t times) {
  std::string all;
  for (int64_t i = 0; i < times; ++i) all += text;
  write_file(folder / "text.txt", all);
  RunSpec spec = nano_spec();
  spec.model["vocab_size"] = 256;
  spec.data = {.kind = "text", .path = folder / "text.txt", .extensions = {}};
  return spec;
}

TEST(Training, EndsWithItsEpochs) {
  const TemporaryFolder folder;
  RunSpec spec = text_spec(folder, "abcd", 200);  // 47 sequences of 17
  spec.train.steps = 1000;
  spec.train.epochs = 1;
  Trained trained(spec);
  EXPECT_EQ(trained.train()["steps"].size(), 12U);
  EXPECT_EQ(trained.session().log().notes(), std::vector<std::string>{"1 epoch was complete after 12 steps"});
}

TEST(RunEnd, EpochsWithoutStepsAloneEndARun) {
  const auto train = [](const Json& settings) {
    const Json data = {{"data", {{"kind", "text"}, {"path", "x"}}}, {"train", settings}};
    return merged(RunSpec{}, data, "x.lua:1").train;
  };
  EXPECT_EQ(length_of(train({{"epochs", 3}})), "3 epochs");
  EXPECT_EQ(length_of(train({{"epochs", 1}, {"warmup", 5}})), "1 epoch");
  EXPECT_EQ(length_of(train({{"epochs", 3}, {"steps", 40}})), "43 steps");
  EXPECT_EQ(length_of(train({{"epochs", 0}})), "13 steps");
  RunSpec base =
      merged(RunSpec{}, {{"data", {{"kind", "text"}, {"path", "x"}}}, {"train", {{"steps", 40}}}}, "");
  EXPECT_EQ(merged(base, {{"train", {{"epochs", 3}}}}, "").train.steps, 40) << "the smaller one ends it";
  base = nano_spec();
  base.data = {.kind = "text", .path = "x", .extensions = {}};
  base.train.steps = TrainSpec().steps;
  EXPECT_EQ(RunEnd(merged(base, {{"train", {{"epochs", 2}}}}, ""), 210, 4).steps(), 105);
}

TEST(Training, TellsTheLengthOfItsEpochs) {
  const TemporaryFolder folder;
  RunSpec spec = text_spec(folder, "abcd", 200);
  spec.train.steps = 1000;
  spec.train.epochs = 1;
  Trained trained(spec);
  std::vector<Json> told;
  optrush::train(trained.session(), [&](const Json& event) { told.push_back(event); }, nullptr, {});
  EXPECT_EQ(std::ranges::count(told, Json{{"event", "length"}, {"steps", 12}}), 1);
}

TEST(Training, EndsWhenTheValidationLossStopsFallingAndKeepsTheBest) {
  const TemporaryFolder folder;
  RunSpec spec = text_spec(folder, "what is learned here is of no use there; ", 40);
  write_file(folder / "other.txt", std::string(400, 'z'));
  spec.validate = {.every = 2, .sequences = 4};
  spec.validate.data = {.kind = "text", .path = folder / "other.txt", .extensions = {}};
  spec.validate.patience = 3;
  spec.validate.keep_best = true;
  spec.train.steps = 2000;
  spec.train.epochs = 8;
  spec.train.lr = 3e-2;
  Trained trained(spec);
  const RunResult result = optrush::train(trained.session(), [](const Json&) {}, nullptr,
                                          {.trace = {}, .state = folder / "state"});
  const auto& made = result.validation;
  const size_t best = *RunEnd::best(made);
  ASSERT_LT(result.steps.size(), 200U);
  EXPECT_EQ(made.size(), best + 4) << "three validations follow the best one";
  EXPECT_EQ(std::ssize(result.steps), made.back().step);
  ASSERT_TRUE(result.best);
  EXPECT_EQ(result.best->step, made[best].step);
  EXPECT_EQ(result.best->loss, made[best].loss);
  const StateFolder kept(folder / "best");
  EXPECT_EQ(kept.step(), made[best].step);
  for (const std::string& note : trained.session().log().notes())
    EXPECT_EQ(note.find("complete after"), std::string::npos) << "its epochs were not complete";
  EXPECT_NE(trained.session().log().notes().back().find("no validation loss was below that of step"),
            std::string::npos);
  // The saved model has that loss.
  spec.train.lr = 1e-12;
  spec.train.warmup = 0;
  spec.train.steps = 1;
  spec.validate.patience = 0;
  spec.validate.keep_best = false;
  Trained again(spec);
  load_state(again.session(), [&](const std::string& key) { return kept.read(key); });
  EXPECT_NEAR(again.train()["validation"][0]["loss"].get<double>(), result.best->loss, 1e-5);
}

TEST(Training, SamplesTextThatTheModelHasLearned) {
  const TemporaryFolder folder;
  RunSpec spec = text_spec(folder, "abcdefgh", 200);
  spec.train.steps = 60;
  spec.sample = {.prompts = {"abcd", "fgh", "cdefghabcdefghab"}, .tokens = 20};
  // The error comes before the first step, so no training is lost.
  const auto refusal_of = [&](const RunSpec& asked) {
    Trained refused(asked);
    int64_t steps = 0;
    const std::string message = error_of([&] {
      train(refused.session(), [&](const Json& line) { steps += line.value("event", "") == "step" ? 1 : 0; });
    });
    EXPECT_EQ(steps, 0);
    return message;
  };
  EXPECT_NE(refusal_of(spec).find("the prompt 'cdefghabcdefghab' has 16 tokens"), std::string::npos);
  RunSpec small = spec;
  small.data = {};
  small.model["vocab_size"] = 100;
  EXPECT_NE(refusal_of(small).find("its 100 tokens are not bytes"), std::string::npos);
  spec.sample.prompts.pop_back();
  const Json sample = Trained(spec).train()["sample"];
  EXPECT_EQ(sample, (Json{{{"prompt", "abcd"}, {"text", "efghabcdefgh"}},
                          {{"prompt", "fgh"}, {"text", "abcdefghabcde"}}}))
      << "sequences have at most 16 tokens";
}
}  // namespace
}  // namespace optrush::testing
