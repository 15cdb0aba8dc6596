// The model kind "operator": one operator of a block.
#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <string>

#include "data/batches.h"
#include "spec/operator_spec.h"
#include "spec/spec_json.h"
#include "support/training.h"
#include "worker/predict.h"

namespace optrush::testing {
namespace {
RunSpec operator_spec(const std::string& op, int64_t repeat = 1, std::vector<PluginUse> plugins = {}) {
  RunSpec spec = nano_spec(std::move(plugins));
  spec.model_kind = "operator";
  spec.model = validate_model(
      "operator", {{"op", op}, {"dim", 24}, {"n_heads", 3}, {"vocab_size", 50}, {"repeat", repeat}}, "test");
  spec.train.steps = 9;
  return spec;
}

class EveryOperator : public ::testing::TestWithParam<std::string> {};

TEST_P(EveryOperator, Trains) {
  const int64_t repeat = GetParam() == "head_loss" ? 1 : 3;
  const Json result = Trained(operator_spec(GetParam(), repeat)).train();
  ASSERT_EQ(result["steps"].size(), 10U);
  for (const auto& step : result["steps"]) EXPECT_GT(step["grad_norm"].get<double>(), 1e-6);
  EXPECT_LT(losses(result).back(), losses(result).front());
}

TEST_P(EveryOperator, ReportsBytesAndFlops) {
  Trained trained(operator_spec(GetParam()));
  const Json work = to_json(make_plan(trained.session())).at("work");
  for (const char* pass : {"forward", "backward"})
    for (const char* what : {"bytes", "flops"}) EXPECT_GT(work.at(pass).at(what).get<double>(), 0) << pass;
}

INSTANTIATE_TEST_SUITE_P(Operator, EveryOperator,
                         ::testing::Values("norm", "add_norm", "position", "attention", "swiglu", "linear",
                                           "head_loss"),
                         [](const auto& info) { return info.param; });

TEST(Operator, MatchesTheFormulaOfItsInputs) {
  RunSpec spec = operator_spec("swiglu", 2);
  spec.train.dtype = "fp64";
  Trained trained(spec);
  Session& session = trained.session();
  Batch batch = Batches(spec, session.model(), session.mesh(), at::kCPU).step(0).at(0);
  batch.token_count = static_cast<double>(batch.valid_tokens);
  const auto in = batch.input.to(at::kDouble).view({3, 4, 16, 24}).unbind(0);
  Tensor x = in[0];
  for (size_t i = 1; i < 3; ++i) x = x / (1 + (-x).exp()) * in[i];
  EXPECT_NEAR(session.forward(0, batch, {}).item<double>(), x.pow(2).mean().item<double>(), 1e-12);
}

TEST(Operator, WorkMatchesTheFormula) {
  const TrainSpec train{.micro_batch = 2, .accumulation = 3, .seq_len = 8};
  const double n = 2 * 8 * 16, steps = 3, bytes = 4;
  const OperatorWork norm = operator_work({.op = "norm", .dim = 16, .repeat = 5}, train);
  EXPECT_EQ(norm.forward.bytes, steps * bytes * (5 * 2 * n + n)) << "x and its norm, and the loss reads once";
  EXPECT_EQ(norm.backward.bytes, steps * bytes * (5 * 3 * n + 2 * n));
  const OperatorWork linear = operator_work({.op = "linear", .dim = 16}, train);
  EXPECT_EQ(linear.forward.flops, steps * (2 * n * 16 + 2 * n));
  EXPECT_EQ(linear.backward.flops, steps * (4 * n * 16 + n));
  const OperatorWork head = operator_work({.op = "head_loss", .dim = 16, .vocab_size = 40}, train);
  EXPECT_EQ(head.forward.bytes, steps * bytes * (n + 16 * 40)) << "no logits";
  EXPECT_EQ(head.backward.bytes, steps * bytes * (2 * n + 2 * 16 * 40)) << "no gradient of logits";
}

TEST(Operator, WorkOfOneRepetitionEqualsTheOperatorAlone) {
  const TrainSpec train{.micro_batch = 2, .seq_len = 8};
  const double n = 2 * 8 * 16;
  using Pass = OperatorWork::Pass;
  const auto more = [&](const char* op, Pass OperatorWork::*pass, double Pass::*what) {
    const auto of = [&](int64_t repeat) {
      return operator_work({.op = op, .dim = 16, .repeat = repeat}, train).*pass.*what;
    };
    return (of(3) - of(2)) / n / (what == &Pass::bytes ? 4 : 1);
  };
  const std::map<std::string, std::array<double, 4>> expected = {
      {"norm", {2, 4, 3, 8}}, {"add_norm", {4, 5, 4, 9}}, {"position", {4, 6, 4, 6}}};
  for (const auto& [op, figures] : expected) {
    EXPECT_EQ(more(op.c_str(), &OperatorWork::forward, &Pass::bytes), figures[0]) << op;
    EXPECT_EQ(more(op.c_str(), &OperatorWork::forward, &Pass::flops), figures[1]) << op;
    EXPECT_EQ(more(op.c_str(), &OperatorWork::backward, &Pass::bytes), figures[2]) << op;
    EXPECT_EQ(more(op.c_str(), &OperatorWork::backward, &Pass::flops), figures[3]) << op;
  }
}

TEST(Operator, PluginsApplyToIt) {
  const auto plain = losses(Trained(operator_spec("attention", 2)).train());
  const auto flash =
      losses(Trained(operator_spec("attention", 2, {{"flash_attention", Json::object()}})).train());
  for (size_t i = 0; i < plain.size(); ++i) EXPECT_NEAR(flash[i], plain[i], 1e-5 * plain[i]);
}
}  // namespace
}  // namespace optrush::testing
