// Compiled blocks on several ranks: sums over ranks inside of them are part of the compiled code, and
// counted; other exchanges inside of a block are refused by name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "exactness.h"
#include "optrush/machine.h"

namespace optrush::testing {
namespace {
using ::testing::HasSubstr;

RankPool& pool() {
  static RankPool pool(4, std::chrono::minutes(10));
  return pool;
}

RunSpec spec_of(int64_t ranks, std::vector<PluginUse> plugins, bool compiled) {
  if (compiled) plugins.push_back({"compile", {{"cache", OPTRUSH_BUILD_DIR "/tests/inductor"}}});
  RunSpec spec = small_spec(ranks, std::move(plugins), {{"n_layers", 2}});
  spec.train.dtype = "fp32";
  spec.train.accumulation = 2;
  return spec;
}

TEST(CompiledParallel, TrainsAsWithoutACompilerAndCountsWhatItSends) {
  if (project_python().empty()) GTEST_SKIP() << "there is no Python environment to compile with";
  const std::vector<PluginUse> strategies = {{"tensor_parallel", Json::object()},
                                             {"pipeline_parallel", Json::object()}};
  const auto compiled = train_on(pool(), {.spec = spec_of(4, strategies, true)});
  const auto eager = train_on(pool(), {.spec = spec_of(4, strategies, false)});
  EXPECT_LT(difference(compiled.losses, eager.losses), 1e-5);
  EXPECT_LT(difference(compiled.norms, eager.norms), 1e-4);
  for (const char* collective : {"all_reduce", "send"}) {
    EXPECT_GT(sent(compiled.result, collective), 0) << collective;
    EXPECT_EQ(sent(compiled.result, collective), sent(eager.result, collective)) << collective;
  }
}

TEST(CompiledParallel, OtherExchangesInsideOfABlockAreRefused) {
  if (project_python().empty()) GTEST_SKIP() << "there is no Python environment to compile with";
  const std::vector<std::vector<PluginUse>> stacks = {
      {{"tensor_parallel", {{"sequence", true}}}},
      {{"tensor_parallel", {{"overlap", 2}}}},
      {{"context_parallel", Json::object()}, {"ddp", Json::object()}}};
  for (const auto& stack : stacks) {
    SCOPED_TRACE(stack.front().name + stack.front().options.dump());
    try {
      train_on(pool(), {.spec = spec_of(2, stack, true)});
      FAIL() << "trained";
    } catch (const std::runtime_error& e) {
      EXPECT_THAT(e.what(), HasSubstr("'" + stack.front().name + "'"));
      EXPECT_THAT(e.what(), HasSubstr("cannot be compiled"));
    }
  }
}
}  // namespace
}  // namespace optrush::testing

int main(int argc, char** argv) {
  // A rank waits for the others while they compile, which takes minutes where sanitizers look on.
  setenv("OPTRUSH_COLLECTIVE_TIMEOUT", "600", /*overwrite=*/0);
  // The code that calls the kernels is most of what g++ compiles for a small unit.
  setenv("AOT_INDUCTOR_COMPILE_WRAPPER_OPT_LEVEL", "O0", 1);
  return optrush::testing::main_of_ranks(argc, argv, optrush::testing::training_jobs());
}
