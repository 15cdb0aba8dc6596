// Optimizers on several ranks train as on one process, send the bytes that theory gives, and continue from
// a state of another number of ranks.
#include <gtest/gtest.h>

#include "mesh_runs.h"

namespace optrush::testing {
namespace {
SpecOf specs_with(const char* optimizer) {
  return [optimizer](const MeshOfRanks& mesh, Stack on_top) {
    Stack stack = mesh.strategy;
    stack.insert(stack.end(), on_top.begin(), on_top.end());
    stack.push_back(use(optimizer));
    RunSpec spec = small_spec(mesh.ranks, std::move(stack));
    spec.train.weight_decay = 0.1;
    spec.train.steps = 3;
    return spec;
  };
}

class OptimizerOnRanks : public ::testing::TestWithParam<const char*> {};

TEST_P(OptimizerOnRanks, EqualsOneProcess) {
  for (const MeshOfRanks& mesh :
       std::vector<MeshOfRanks>{{3, 3, {use("ddp")}},
                                {3, 3, {use("fsdp")}},
                                {2, 2, {use("fsdp", {{"stage", 1}})}},
                                {2, 2, {use("fsdp", {{"offload", true}})}},
                                {4, 4, {use("fsdp", {{"shard_ranks", 2}})}},
                                {4, 2, {use("tensor_parallel", {{"size", 2}}), use("fsdp")}},
                                {4, 2, {use("pipeline_parallel", {{"size", 2}}), use("fsdp")}}}) {
    RunSpec spec = specs_with(GetParam())(mesh, {});
    spec.train.accumulation = 2;
    SCOPED_TRACE(text_of(mesh));
    expect_equal_training(pool(), spec, one_process_of(spec, mesh.batch_ranks), 1e-9);
  }
}

TEST_P(OptimizerOnRanks, SavedStateContinuesOnOtherRanks) {
  const MeshOfRanks fsdp{4, 4, {use("fsdp")}}, one{1, 1, {}}, ddp{2, 2, {use("ddp")}},
      tensor{4, 2, {use("tensor_parallel", {{"size", 2}}), use("fsdp")}};
  expect_states_continue(pool(), {{fsdp, one}, {one, tensor}, {tensor, ddp}}, specs_with(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(All, OptimizerOnRanks, ::testing::Values("lion", "adafactor", "schedule_free"),
                         [](const auto& info) { return std::string(info.param); });

/// R + C + 1 numbers for a matrix, one for a vector, and one more of each for the update.
TEST(AdafactorOnRanks, SentBytesMatchTheory) {
  for (const int64_t ranks : {2, 4}) {
    const auto result_of = [&](Stack stack) {
      RunSpec spec = small_spec(ranks, std::move(stack));
      spec.train.warmup = spec.train.steps = 1;
      return train_on(pool(), {.spec = spec}).result;
    };
    const Json without = result_of({use("fsdp")}), with = result_of({use("fsdp"), use("adafactor")});
    // Of a layer: q, o, k, v, gate, up, down, two norms; the tied embedding, the last norm.
    const double of_layer = 2 * (24 + 24) + 2 * (12 + 24) + 3 * (36 + 24);
    const double numbers = 3 * of_layer + (61 + 24) + 2 * (3 * 9 + 2);
    const double bytes = 8 * numbers * 2 * static_cast<double>(ranks - 1) / static_cast<double>(ranks);
    EXPECT_NEAR(theory(with, "all_reduce") - theory(without, "all_reduce"), bytes, 1e-9 * bytes);
    EXPECT_NEAR(sent(with, "all_reduce") - sent(without, "all_reduce"), bytes, 1e-9 * bytes);
  }
}

TEST(AdafactorOnRanks, OptimizerInBackwardIsRefusedForParts) {
  expect_in_backward_is_refused_for_parts(pool(), {{2, 2, {use("fsdp")}}}, specs_with("adafactor"));
}
}  // namespace
}  // namespace optrush::testing
