// Optimizers on several ranks train as on one process, send what theory says, and go on from a state that
// other ranks saved.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "exactness.h"
#include "random_training.h"

namespace optrush::testing {
namespace {
using ::testing::HasSubstr;

RankPool& pool() {
  static RankPool pool(4);
  return pool;
}

using Stack = std::vector<PluginUse>;
PluginUse use(const char* name, Json options = Json::object()) { return {name, std::move(options)}; }

/// Where ranks keep parameters, and how many of them train on other data.
struct Mesh {
  int64_t ranks, batch_ranks;
  Stack strategy;
};

RunSpec spec_of(const char* optimizer, const Mesh& mesh) {
  Stack stack = mesh.strategy;
  stack.push_back(use(optimizer));
  RunSpec spec = small_spec(mesh.ranks, std::move(stack));
  spec.train.weight_decay = 0.1;
  spec.train.steps = 3;
  return spec;
}

std::string text_of(const char* optimizer, const Mesh& mesh) {
  std::string text = std::string(optimizer) + " on " + std::to_string(mesh.ranks) + " ranks:";
  for (const PluginUse& plugin : mesh.strategy) text += " " + plugin.name + plugin.options.dump();
  return text;
}

class OptimizerOnRanks : public ::testing::TestWithParam<const char*> {};

TEST_P(OptimizerOnRanks, EqualsOneProcess) {
  for (const Mesh& mesh : std::vector<Mesh>{{3, 3, {use("ddp")}},
                                            {3, 3, {use("fsdp")}},
                                            {2, 2, {use("fsdp", {{"stage", 1}})}},
                                            {2, 2, {use("fsdp", {{"offload", true}})}},
                                            {4, 4, {use("fsdp", {{"shard_ranks", 2}})}},
                                            {4, 2, {use("tensor_parallel", {{"size", 2}}), use("fsdp")}},
                                            {4, 2, {use("pipeline_parallel", {{"size", 2}}), use("fsdp")}}}) {
    RunSpec spec = spec_of(GetParam(), mesh);
    spec.train.accumulation = 2;
    SCOPED_TRACE(text_of(GetParam(), mesh));
    expect_equal_training(pool(), spec, one_process_of(spec, mesh.batch_ranks), 1e-9);
  }
}

TEST_P(OptimizerOnRanks, StateSavedOnSomeRanksGoesOnOnOthers) {
  const Mesh fsdp{4, 4, {use("fsdp")}}, one{1, 1, {}}, ddp{2, 2, {use("ddp")}},
      tensor{4, 2, {use("tensor_parallel", {{"size", 2}}), use("fsdp")}};
  for (const auto& [from, to] : {std::pair(fsdp, one), {one, tensor}, {tensor, ddp}}) {
    const auto resumed = [](const Mesh& mesh) {
      RunSpec spec = spec_of(GetParam(), mesh);
      spec.train.micro_batch = 4 / mesh.batch_ranks;
      return spec;
    };
    SCOPED_TRACE(text_of(GetParam(), from));
    const RunSpec saving = resumed(from);
    expect_state_goes_on(pool(), saving, resumed(to), one_process_of(saving, from.batch_ranks));
  }
}

INSTANTIATE_TEST_SUITE_P(All, OptimizerOnRanks, ::testing::Values("lion", "adafactor", "schedule_free"),
                         [](const auto& info) { return std::string(info.param); });

/// R + C + 1 numbers of a matrix, one of a vector, and one more of each for its update.
TEST(AdafactorOnRanks, SendsWhatTheorySays) {
  for (const int64_t ranks : {2, 4}) {
    const auto result_of = [&](Stack stack) {
      RunSpec spec = small_spec(ranks, std::move(stack));
      spec.train.steps = 2;
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

TEST(AdafactorOnRanks, PartsAreNotUpdatedOneByOne) {
  const PluginUse in_backward = use("optimizer_in_backward");
  EXPECT_THAT(refusal_of(pool(), spec_of("adafactor", {2, 2, {use("fsdp"), in_backward}})),
              HasSubstr("'optimizer_in_backward' updates each parameter separately"));
  const RunSpec spec = spec_of("adafactor", {2, 2, {use("ddp"), in_backward}});
  expect_equal_training(pool(), spec, one_process_of(spec, 2), 1e-9);
}
}  // namespace
}  // namespace optrush::testing

int main(int argc, char** argv) {
  return optrush::testing::main_of_ranks(argc, argv, optrush::testing::training_jobs());
}
