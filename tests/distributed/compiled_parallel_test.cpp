// Compiled blocks on several ranks. Sums over ranks inside a block are compiled and counted. Other exchanges
// inside a block are refused by name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "exactness.h"
#include "optrush/advanced/machine.h"
#include "support/folders.h"

namespace optrush::testing {
namespace {
using ::testing::HasSubstr;

RankPool& pool() {
  static RankPool pool(std::chrono::minutes(10));
  return pool;
}

RunSpec compiled_spec(int64_t ranks, std::vector<PluginUse> plugins, bool compiled) {
  if (compiled) plugins.push_back({"compile", {{"cache", build_folder() + "/tests/inductor"}}});
  RunSpec spec = small_spec(ranks, std::move(plugins), {{"n_layers", 2}});
  spec.train.dtype = "fp32";
  spec.train.accumulation = 2;
  return spec;
}

TEST(CompiledParallel, MatchesEagerTrainingAndCountsSentBytes) {
  if (project_python().empty()) GTEST_SKIP() << "there is no Python environment to compile with";
  const std::vector<PluginUse> strategies = {{"tensor_parallel", Json::object()},
                                             {"pipeline_parallel", Json::object()}};
  const auto compiled = train_on(pool(), {.spec = compiled_spec(4, strategies, true)});
  const auto eager = train_on(pool(), {.spec = compiled_spec(4, strategies, false)});
  EXPECT_LT(difference(compiled.losses, eager.losses), 1e-5);
  EXPECT_LT(difference(compiled.norms, eager.norms), 1e-4);
  for (const char* collective : {"all_reduce", "send"}) {
    EXPECT_GT(sent(compiled.result, collective), 0) << collective;
    EXPECT_EQ(sent(compiled.result, collective), sent(eager.result, collective)) << collective;
  }
}

/// The faster form differs by rank here. Losses would agree to rounding even if ranks chose differently.
TEST(CompiledParallel, AllRanksChooseTheSameForm) {
  if (project_python().empty()) GTEST_SKIP() << "there is no Python environment to compile with";
  const auto cache = std::filesystem::temp_directory_path() / "optrush_auto_of_ranks";
  std::filesystem::remove_all(cache);
  RunSpec spec = compiled_spec(2, {{"ddp", Json::object()}, {"uneven_swiglu", Json::object()}}, false);
  spec.plugin_path.push_back(build_folder() + "/tests/plugins");
  const auto eager = train_on(pool(), {.spec = spec});
  spec.plugins.push_back({"compile", {{"cache", cache.string()}, {"units", {"block", "auto"}}}});
  const auto chosen = train_on(pool(), {.spec = spec});
  const Json& graphs = chosen.result.at("counters").at("compile").at(1);
  EXPECT_EQ(graphs.at("name"), "graphs");
  EXPECT_EQ(graphs.at("value"), 0)
      << "the maximum over ranks: all follow the first rank, where eager code is faster";
  EXPECT_EQ(chosen.losses, eager.losses);
  std::filesystem::remove_all(cache);
}

TEST(CompiledParallel, OtherExchangesInsideABlockAreRefused) {
  if (project_python().empty()) GTEST_SKIP() << "there is no Python environment to compile with";
  const std::vector<std::vector<PluginUse>> stacks = {
      {{"tensor_parallel", {{"sequence", true}}}},
      {{"tensor_parallel", {{"overlap", 2}}}},
      {{"context_parallel", Json::object()}, {"ddp", Json::object()}}};
  for (const auto& stack : stacks) {
    SCOPED_TRACE(stack.front().name + stack.front().options.dump());
    try {
      train_on(pool(), {.spec = compiled_spec(2, stack, true)});
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
  // A rank waits while the others compile. With sanitizers this takes minutes.
  setenv("OPTRUSH_COLLECTIVE_TIMEOUT", "600", /*overwrite=*/0);
  return optrush::testing::main_of_ranks(argc, argv);
}
